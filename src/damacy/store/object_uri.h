// Which object a uri names: a store, and a key in it. Knows how uris are divided; opens no object, and knows no files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "damacy/store/store.h"
#include "damacy/store/store_options.h"
#include "damacy/store/store_use.h"

namespace damacy {

struct ObjectPlace {
  std::shared_ptr<Store> store;
  std::string key;
};

// Of any uri that names no file. A query is allowed with http(s), and is a secret. `options` are in place of those that
// are mounted. Throws Error(inval) with the reasons uri and options.
[[nodiscard]] ObjectPlace object_of_uri(std::string_view uri, const std::optional<StoreOptions>& options,
                                        const StoreUse& use);

}  // namespace damacy
