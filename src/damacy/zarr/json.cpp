#include "damacy/zarr/json.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "damacy/core/formatted.h"
#include "damacy/core/json_events.h"
#include "damacy/core/limits.h"
#include "damacy/zarr/detail/json_zone.h"

namespace damacy::json {
// Makes the tree of a document. If an event ends the reading, `failure` says why.
class TreeBuilder final : public JsonEvents {
 public:
  TreeBuilder(Document& document, Form form) : document_(document), form_(form) {}

  bool null() override { return add(Kind::null, begin_value(), {}); }
  bool boolean(bool truth) override { return add(Kind::boolean, begin_value(), truth ? "1" : ""); }
  bool number(std::string_view number) override {
    const Zone zone = begin_value();
    if (limits_text(zone) && number.size() > Limits::json_number_chars)
      return too_many("characters of a number", Limits::json_number_chars, number.size());
    return add(Kind::number, zone, number);
  }
  bool string(std::string_view string) override {
    const Zone zone = begin_value();
    return check_string(string, zone) && add(Kind::string, zone, string);
  }
  bool name(std::string_view name) override {
    Frame& frame = frames_.back();
    ++frame.count;
    frame.name = name;
    if (limits_members(frame.zone) && frame.count > Limits::json_members)
      return too_many("members of an object", Limits::json_members, frame.count);
    if (name.find('\0') != name.npos) return fail(Status::decode, "NUL in a name");
    return check_string(name, frame.zone);
  }
  bool begin_object(std::size_t) override { return open(Kind::object); }
  bool end_object(std::size_t) override { return close(); }
  bool begin_array(std::size_t) override { return open(Kind::array); }
  bool end_array(std::size_t) override { return close(); }

  const std::optional<Error>& failure() const noexcept { return failure_; }
  std::string pointer() const {
    std::string path;
    for (const Frame& frame : frames_)
      if (frame.count != 0)
        path += frame.kind == Kind::object ? pointer_token(frame.name) : formatted("/{}", frame.count - 1);
    return path;
  }

 private:
  static constexpr std::uint32_t kFewMembers = 16;

  // An open container.
  struct Frame {
    Kind kind;
    Zone zone;
    std::uint32_t node;       // kNone when dropped
    std::uint32_t count = 0;  // names, or values of an array, seen so far
    std::string name{};       // the last one
  };

  // Counts the value that comes now, if it is one of an array, and says where it belongs.
  Zone begin_value() {
    if (frames_.empty()) return zone_of_root(form_);
    Frame& frame = frames_.back();
    if (frame.kind == Kind::object) return zone_of_next_member(frame);
    const Zone zone = zone_of_item(frame.zone, frame.count++);
    if (frame.node != Document::kNone) document_.nodes_[frame.node].count = frame.count;
    return zone;
  }

  // After a duplicate name nothing more of the object is kept, because it will not be used.
  Zone zone_of_next_member(const Frame& frame) const {
    const Zone zone = zone_of_member(frame.zone, frame.name, frame.count - 1);
    const bool is_bad = frame.node != Document::kNone && document_.nodes_[frame.node].duplicate != Document::kNone;
    if (!is_bad) return zone;
    return limits_text(zone) ? Zone::dropped : Zone::free;
  }

  bool open(Kind kind) {
    const Zone zone = begin_value();
    if (frames_.size() == Limits::json_nesting)
      return too_many("levels of nesting", Limits::json_nesting, Limits::json_nesting + 1);
    const auto node = is_dropped(zone) ? Document::kNone : static_cast<std::uint32_t>(document_.nodes_.size());
    add(kind, zone, {});
    frames_.push_back({kind, zone, node});
    return true;
  }

  bool close() {
    const auto node = frames_.back().node;
    if (node != Document::kNone && frames_.back().kind == Kind::object) find_duplicate(node);
    frames_.pop_back();
    return true;
  }

  // Adds it to the tree unless it is dropped.
  bool add(Kind kind, Zone zone, std::string_view characters) {
    if (is_dropped(zone)) return true;
    if (zone == Zone::ngff && document_.nodes_.size() >= Limits::ngff_values)
      return too_many("values that describe an image", Limits::ngff_values, Limits::ngff_values + 1);
    Frame* const frame = frames_.empty() ? nullptr : &frames_.back();
    auto& nodes = document_.nodes_;
    const auto id = static_cast<std::uint32_t>(nodes.size());
    Document::Node node{.kind = kind};
    if (kind == Kind::boolean)
      node.truth = !characters.empty();
    else
      std::tie(node.text_at, node.text_bytes) = keep(characters);
    if (frame != nullptr) {
      node.parent = frame->node;
      node.index = frame->count - 1;
      if (frame->kind == Kind::object) std::tie(node.name_at, node.name_bytes) = keep(frame->name);
    }
    nodes.push_back(node);
    if (frame != nullptr) append_child(frame->node, id);
    return true;
  }

  void append_child(std::uint32_t parent_id, std::uint32_t id) {
    auto& nodes = document_.nodes_;
    Document::Node& parent = nodes[parent_id];
    if (parent.kind == Kind::object && parent.count++ < kFewMembers && has_name_of(parent_id, id))
      parent.duplicate = id;
    if (parent.first == Document::kNone)
      parent.first = id;
    else
      nodes[parent.last].next = id;
    parent.last = id;
  }

  bool has_name_of(std::uint32_t parent, std::uint32_t id) const {
    const auto name = Value(&document_, id).name();
    for (const Value member : Value(&document_, parent))
      if (member.name() == name) return true;
    return false;
  }

  std::pair<std::uint32_t, std::uint32_t> keep(std::string_view characters) {
    const auto at = static_cast<std::uint32_t>(document_.characters_.size());
    document_.characters_ += characters;
    return {at, static_cast<std::uint32_t>(characters.size())};
  }

  // Among more members than were compared one with another.
  void find_duplicate(std::uint32_t node) {
    const Document::Node& object = document_.nodes_[node];
    if (object.count <= kFewMembers || object.duplicate != Document::kNone) return;
    std::vector<Value> members;
    for (const Value& member : Value(&document_, node)) members.push_back(member);
    std::sort(members.begin(), members.end(), [](const Value& a, const Value& b) {
      return std::pair(a.name(), a.node_) < std::pair(b.name(), b.node_);
    });
    const auto twin = std::adjacent_find(members.begin(), members.end(),
                                         [](const Value& a, const Value& b) { return a.name() == b.name(); });
    if (twin != members.end()) document_.nodes_[node].duplicate = (twin + 1)->node_;
  }

  bool check_string(std::string_view string, Zone zone) {
    if (limits_text(zone) && string.size() > Limits::json_string_bytes)
      return too_many("bytes of a string", Limits::json_string_bytes, string.size());
    if (has_lone_surrogate(string)) return fail(Status::decode, "lone surrogate in a string");
    return true;
  }

  bool too_many(std::string_view what, std::uint64_t limit, std::uint64_t found) {
    return fail(Status::inval, formatted("more {} than the limit: {}, limit {}", what, found, limit), "limit");
  }
  bool fail(Status status, std::string message, std::string reason = "json") {
    failure_ = Error(status, std::move(message), std::move(reason));
    failure_->at_pointer(pointer());
    return false;
  }

  Document& document_;
  Form form_;
  std::vector<Frame> frames_;
  std::optional<Error> failure_;
};

Document Document::parse(std::string_view text, Form form) {
  Document document;
  TreeBuilder builder(document, form);
  try {
    if (!read_json(text, builder)) throw *builder.failure();
  } catch (const Error& e) {
    throw Error(e).at_pointer(builder.pointer());
  }
  return document;
}

std::string_view name_of(Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"null", "a boolean", "a number", "a string", "a list", "an object"};
  return kNames[static_cast<int>(kind)];
}

Kind Value::kind() const noexcept {
  return document_->nodes_[node_].kind;
}
bool Value::truth() const noexcept {
  return document_->nodes_[node_].truth;
}
bool Value::is_finite_number() const noexcept {
  return is(Kind::number) && text().find_first_of("NI") == std::string_view::npos;
}
std::size_t Value::size() const noexcept {
  return document_->nodes_[node_].count;
}
Value::Iterator Value::begin() const noexcept {
  return {document_, document_->nodes_[node_].first};
}
Value::Iterator Value::end() const noexcept {
  return {document_, Document::kNone};
}

std::string_view Value::text() const noexcept {
  const auto& node = document_->nodes_[node_];
  return std::string_view(document_->characters_).substr(node.text_at, node.text_bytes);
}

std::string_view Value::name() const noexcept {
  const auto& node = document_->nodes_[node_];
  return std::string_view(document_->characters_).substr(node.name_at, node.name_bytes);
}

std::string Value::pointer() const {
  const auto& node = document_->nodes_[node_];
  if (node.parent == Document::kNone) return {};
  const Value parent(document_, node.parent);
  return parent.pointer() + (parent.is(Kind::object) ? pointer_token(name()) : formatted("/{}", node.index));
}

std::string shown(const Value& value) {
  constexpr std::size_t kShownBytes = 64;
  const auto characters = [&] { return one_line(value.text().substr(0, 4 * kShownBytes), kShownBytes); };
  if (value.is(Kind::boolean)) return value.truth() ? "true" : "false";
  if (value.is(Kind::number)) return characters();
  if (value.is(Kind::string)) return '"' + characters() + '"';
  return std::string(name_of(value.kind()));
}

Error Value::error(Status status, std::string message, std::string reason) const {
  return Error(status, std::move(message), std::move(reason)).at_pointer(pointer());
}

Error Value::unsupported(std::string message, std::string reason) const {
  return Error::unsupported(std::move(message), std::move(reason)).at_pointer(pointer());
}

Value Value::expect(Kind wanted) const {
  if (!is(wanted))
    throw error(Status::decode, formatted("expected {}, found {}", name_of(wanted), shown(*this)), "metadata");
  const auto duplicate = document_->nodes_[node_].duplicate;
  if (duplicate != Document::kNone) {
    const Value member(document_, duplicate);
    throw member.error(Status::decode, formatted("member '{}' occurs twice", member.name()), "duplicate-key");
  }
  return *this;
}

std::optional<Value> Value::find(std::string_view member) const {
  for (const Value value : expect(Kind::object))
    if (value.name() == member) return value;
  return std::nullopt;
}

Value Value::at(std::string_view member) const {
  if (auto value = find(member)) return *value;
  throw Error(Status::decode, damacy::formatted("member '{}' is missing", member), "metadata")
      .at_pointer(pointer() + pointer_token(member));
}

std::int64_t Value::integer(std::int64_t min) const {
  const auto digits = expect(Kind::number).text();
  const bool exact = digits == "0" || (digits != "-0" && digits.find_first_of(".eENI") == digits.npos);
  if (!exact) throw error(Status::decode, formatted("expected an integer, found {}", digits), "metadata");
  std::int64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool too_large = parsed.ec != std::errc{} && digits[0] != '-';
  if (too_large) throw error(Status::inval, formatted("{} is not below the limit 2^63", digits), "limit");
  if (parsed.ec != std::errc{} || number < min)
    throw error(Status::decode, formatted("expected an integer of at least {}, found {}", min, digits), "metadata");
  return number;
}

}  // namespace damacy::json
