// The names of the fields of StoreOptions, and their members, in the order in which they are shown. Python's bindings
// and masked_text() read this table, so that a new field is one line here, a member with its meaning in
// store_options.h, and a field of Python's class.
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>

#include "damacy/store/store_options.h"

namespace damacy {

// What masked_text() shows of a value that is not the default.
enum class Shown { value, url, key_id, nothing };

template <class Member>
struct StoreField {
  std::string_view name;
  Member member;
  Shown shown = Shown::value;
};
template <class Member>
StoreField(const char*, Member) -> StoreField<Member>;
template <class Member>
StoreField(const char*, Member, Shown) -> StoreField<Member>;

inline constexpr std::tuple kStoreFields{
    StoreField{"endpoint", &StoreOptions::endpoint, Shown::url},
    StoreField{"region", &StoreOptions::region},
    StoreField{"addressing", &StoreOptions::addressing},
    StoreField{"anonymous", &StoreOptions::anonymous},
    StoreField{"credentials", &StoreOptions::credentials},
    StoreField{"profile", &StoreOptions::profile},
    StoreField{"access_key_id", &StoreOptions::access_key_id, Shown::key_id},
    StoreField{"secret_access_key", &StoreOptions::secret_access_key, Shown::nothing},
    StoreField{"session_token", &StoreOptions::session_token, Shown::nothing},
    StoreField{"bearer_token", &StoreOptions::bearer_token, Shown::nothing},
    StoreField{"request_payer", &StoreOptions::request_payer},
    StoreField{"headers", &StoreOptions::headers},
    StoreField{"absent_status", &StoreOptions::absent_status},
    StoreField{"proxy", &StoreOptions::proxy, Shown::nothing},
    StoreField{"ca_file", &StoreOptions::ca_file},
    StoreField{"connect_timeout_s", &StoreOptions::connect_timeout_s},
    StoreField{"first_byte_timeout_s", &StoreOptions::first_byte_timeout_s},
    StoreField{"stall_timeout_s", &StoreOptions::stall_timeout_s},
    StoreField{"deadline_s", &StoreOptions::deadline_s},
    StoreField{"attempts", &StoreOptions::attempts},
    StoreField{"max_requests", &StoreOptions::max_requests},
    StoreField{"redirects", &StoreOptions::redirects},
    StoreField{"request_bytes", &StoreOptions::request_bytes},
    StoreField{"gap_bytes", &StoreOptions::gap_bytes},
    StoreField{"hedge", &StoreOptions::hedge},
    StoreField{"revalidate_s", &StoreOptions::revalidate_s},
    StoreField{"immutable", &StoreOptions::immutable},
    StoreField{"allow_unversioned", &StoreOptions::allow_unversioned},
};

// Calls `visit` with each line of the table.
template <class Visit>
void for_store_fields(Visit visit) {
  std::apply([&](const auto&... fields) { (visit(fields), ...); }, kStoreFields);
}

}  // namespace damacy
