// Remote stores of the C interface.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "damacy/c.h"
#include "damacy/c/detail/calls.h"
#include "damacy/c/detail/text_values.h"
#include "damacy/store/mounts.h"
#include "damacy/store/store_fields.h"

using damacy::Credentials;
using damacy::Error;
using damacy::Status;
using damacy::StoreOptions;
using damacy::detail::needed;
using damacy::detail::status_of;

struct damacy_store_options {
  StoreOptions options;
};

int damacy_store_options_create(damacy_store_options** out) {
  return status_of([&] { needed(out, "out") = std::make_unique<damacy_store_options>().release(); });
}

void damacy_store_options_destroy(damacy_store_options* options) {
  const std::unique_ptr<damacy_store_options> owner(options);
}

int damacy_store_options_set(damacy_store_options* options, const char* name, const char* value) {
  return status_of([&] {
    StoreOptions& to = needed(options, "options").options;
    const std::string_view option = &needed(name, "name"), text = &needed(value, "value");
    bool is_set = false;
    std::string names;
    damacy::for_store_fields([&](const auto& field) {
      auto& member = to.*field.member;
      if constexpr (!std::is_same_v<std::remove_reference_t<decltype(member)>, std::function<Credentials()>>) {
        names += damacy::formatted("{}{}", names.empty() ? "" : ", ", field.name);
        if (field.name != option) return;
        damacy::detail::TextValue(option, text).to(member);
        is_set = true;
      }
    });
    if (!is_set)
      throw Error(Status::inval, damacy::formatted("no option \"{}\"; there are: {}", option, names), "arguments");
  });
}

int damacy_mount(const char* prefix, const damacy_store_options* options) {
  return status_of([&] { damacy::mount(&needed(prefix, "prefix"), needed(options, "options").options); });
}

int damacy_unmount(const char* prefix) {
  return status_of([&] { damacy::unmount(&needed(prefix, "prefix")); });
}
