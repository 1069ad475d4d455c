// Which version of an object an answer has: its ETag or Last-Modified, and its size. Knows heads of answers; makes no
// request.
#pragma once

#include <cstdint>
#include <string>

#include "damacy/store/http/answer.h"
#include "damacy/store/store.h"

namespace damacy::http {

struct Version {
  std::string tag;       // a strong ETag, or empty
  std::string modified;  // Last-Modified
  std::uint64_t size = 0;
  // Whether a later write would get another version. A Last-Modified near the answer's Date has been given to a writer
  // that may still be at it, or by another clock.
  bool is_settled = true;

  // The header line that makes the server check it; empty: it cannot be checked.
  [[nodiscard]] std::string condition() const;
  [[nodiscard]] bool is_of(const Head& head) const { return tag.empty() ? head.modified == modified : head.tag == tag; }
  // Of a body, or of a 416: whether it has another version or size.
  [[nodiscard]] bool is_changed(const Head& head) const;
  [[nodiscard]] Stamp stamp() const;
};

// Of an answer, with that size.
[[nodiscard]] Version version_in(const Head& head, std::uint64_t size);

}  // namespace damacy::http
