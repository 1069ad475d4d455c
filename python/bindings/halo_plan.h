// A compiled copy plan, as Python sees it. Decides nothing.
#pragma once

#include <memory>
#include <optional>

#include "damacy/copy/copy_plan.h"
#include "damacy/halo/wire.h"

namespace damacy::python {

struct CopyPlan {
  explicit CopyPlan(std::shared_ptr<const halo::Compiled> made) : compiled(std::move(made)), plan(compiled->plan) {}

  std::shared_ptr<const halo::Compiled> compiled;
  std::shared_ptr<const copy::Plan> plan;
};

// A plan with the addresses that it copies from and to.
struct BoundCopies {
  std::shared_ptr<const copy::Plan> plan;
  copy::Bases bases;
};

}  // namespace damacy::python
