// Where a url or a redirect leads: its origin, how near that is, and whether secrets may go there. Parses text of
// servers; opens no connection.
#pragma once

#include <optional>
#include <string>
#include <string_view>

struct sockaddr;

namespace damacy::http {

// The origin of a url: scheme, host and port.
[[nodiscard]] std::string_view origin_of(std::string_view url);

// Whether the url names this machine, in plain http or in https.
[[nodiscard]] bool is_of_this_machine(std::string_view url);

// Whether nobody else sees what is sent to the url: it is encrypted, or does not leave this machine. `proxy`: HOST:PORT
// or a url; empty: none of another machine's.
[[nodiscard]] bool keeps_secrets(std::string_view url, std::string_view proxy = {});

// The absolute url that `location`, a header's value, means in an answer to `url`; without a fragment. Empty: it is no
// http(s) url, is not percent-encoded, or has user info.
[[nodiscard]] std::optional<std::string> resolve_location(std::string_view url, std::string_view location);

// Of a Location, for texts: without what may be secret; empty if there is none.
[[nodiscard]] std::string shown_location(std::string_view location);

// How far an address is from the internet. A redirect may not lead nearer to this machine than the answer came from.
enum class Reach { unknown, internet, local_network, link };
[[nodiscard]] Reach reach_of(const sockaddr& address) noexcept;
[[nodiscard]] Reach reach_of_text(std::string_view address) noexcept;  // 10.0.0.1, ::1
[[nodiscard]] constexpr bool may_lead(Reach from, Reach to) noexcept {
  return to == Reach::unknown || from >= to;
}

}  // namespace damacy::http
