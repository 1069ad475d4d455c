// What an answer means for a read: its body is what was asked for, or why it is not, and whether to ask again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "damacy/store/http/transfer.h"

namespace damacy::http {

// What one more attempt may put right, where more than one would not: each of these is tried once.
enum class Once : unsigned { no = 0, misfit = 1, region = 2, clock = 4, credentials = 8 };

struct Failure {
  const char* reason;
  std::string text;
  bool again;                                // whether another attempt may help
  Once once = Once::no;                      // but only one
  bool at_once = false;                      // without a pause
  bool is_broken = false;                    // the connection was refused, reset or cut
  int system_errno = 0;                      // of the connection
  std::vector<std::string> absent_beside{};  // where an object under one of these keys is there, this one is absent
};

// The body is one part, and not compressed.
[[nodiscard]] bool is_plain(const Head& head);

// The answer is exactly this range; `total` may be empty where it is not known before.
[[nodiscard]] bool is_range(const Head& head, std::uint64_t first, std::uint64_t count,
                            std::optional<std::uint64_t> total);

// Of a transfer that libcurl ended before its head.
[[nodiscard]] Failure broken(const Transfer& transfer);

// Of an answer that was accepted and ended before all bytes had come.
[[nodiscard]] Failure ended_early(const Transfer& transfer, std::uint64_t missing);

// Of an answer that was refused and ended before its body, which says what the refusal means.
[[nodiscard]] bool is_refusal_cut(const Transfer& transfer);
[[nodiscard]] Failure refusal_cut(const Transfer& transfer);

// Why an answer cannot be used, or nothing: its body was accepted, though it may have ended early. `known`: the object
// was there before.
[[nodiscard]] std::optional<Failure> failure_of(const Transfer& transfer, bool known);

// `GET 403`, and the request's number if the server named one. `code`: what the body calls it, or empty.
[[nodiscard]] std::string status_text(const Head& head, std::string_view code = {});

}  // namespace damacy::http
