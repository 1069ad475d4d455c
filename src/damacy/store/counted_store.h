// A mounted store whose requests may be counted for each of its users. Knows no requests.
#pragma once

#include <memory>

#include "damacy/store/store.h"
#include "damacy/store/store_use.h"

namespace damacy {

class CountedStore : public Store {
 public:
  // The same objects, by requests that `use` counts; null: this store itself will do.
  virtual std::shared_ptr<Store> for_use(const StoreUse& use) = 0;
};

}  // namespace damacy
