// A writer of rows that fails the test: no row is to be written.
#pragma once

#include <gtest/gtest.h>

#include "damacy/batch/batch_job.h"

namespace damacy::testing {

class NoRowWriter final : public RowWriter {
 public:
  void fill_part(BatchJob&, std::size_t) override { FAIL() << "nothing is filled"; }
  void move_row(std::span<std::byte>, std::span<const std::byte>) override { FAIL() << "nothing is moved"; }
};

}  // namespace damacy::testing
