// JSON documents as a small tree of views, with limits (core/limits.h). Numbers stay text, so that each user converts
// them exactly; the bare words NaN, Infinity and -Infinity, which Python's json writes, are numbers, too. Knows which
// parts of zarr documents are kept (attributes may be large); does not know what members mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/json_events.h"
#include "damacy/zarr/json_form.h"

namespace damacy::json {

enum class Kind : std::uint8_t { null, boolean, number, string, array, object };

[[nodiscard]] std::string_view name_of(Kind kind) noexcept;

class Document;

// A value in a document, which must outlive it. Cheap to copy.
class Value {
 public:
  Kind kind() const noexcept;
  bool is(Kind kind_asked) const noexcept { return kind() == kind_asked; }
  bool truth() const noexcept;             // of a boolean
  bool is_finite_number() const noexcept;  // not a bare word
  std::string_view text() const noexcept;  // string: unescaped; number: as written
  std::string_view name() const noexcept;  // as member of an object, unescaped
  std::size_t size() const noexcept;       // items of an array, also those not kept; members kept
  std::string pointer() const;             // RFC 6901

  class Iterator;
  Iterator begin() const noexcept;
  Iterator end() const noexcept;

  // All of these throw Error(decode, "metadata") with a pointer if the value has the wrong kind or is missing, and
  // "duplicate-key" if a name occurs twice in an object that is used.
  Value expect(Kind wanted) const;  // itself
  std::optional<Value> find(std::string_view member) const;
  Value at(std::string_view member) const;
  // `0` or `-?[1-9][0-9]*` only. Below `min`: "metadata"; not below 2^63: Error(inval, "limit").
  std::int64_t integer(std::int64_t min) const;

  // An error about this value.
  Error error(Status status, std::string message, std::string reason) const;
  Error unsupported(std::string message, std::string reason) const;

 private:
  friend class Document;
  friend class TreeBuilder;
  Value(const Document* document, std::uint32_t node) : document_(document), node_(node) {}
  const Document* document_;
  std::uint32_t node_;
};

// As it stands in the document, for errors: 12, "text", true, null, a list, an object. Long texts are cut.
[[nodiscard]] std::string shown(const Value& value);

class Document {
 public:
  // Throws Error(decode, "json") or Error(inval, "limit"), with the pointer to where it was.
  static Document parse(std::string_view text, Form form);

  Value root() const noexcept { return {this, 0}; }

 private:
  friend class Value;
  friend class TreeBuilder;
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Node {
    Kind kind;
    bool truth = false;
    std::uint32_t parent = kNone;
    std::uint32_t index = 0;  // in its parent
    std::uint32_t next = kNone;
    std::uint32_t first = kNone, last = kNone, count = 0;  // children
    std::uint32_t duplicate = kNone;                       // the first child whose name occurred before
    std::uint32_t name_at = 0, name_bytes = 0;
    std::uint32_t text_at = 0, text_bytes = 0;
  };
  std::vector<Node> nodes_;
  std::string characters_;  // of all names and texts
};

class Value::Iterator {
 public:
  using value_type = Value;
  using difference_type = std::ptrdiff_t;
  Iterator(const Document* document, std::uint32_t node) : document_(document), node_(node) {}
  Value operator*() const noexcept { return {document_, node_}; }
  Iterator& operator++() noexcept {
    node_ = document_->nodes_[node_].next;
    return *this;
  }
  friend bool operator==(const Iterator&, const Iterator&) = default;

 private:
  const Document* document_;
  std::uint32_t node_;
};

}  // namespace damacy::json
