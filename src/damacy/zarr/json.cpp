#include "damacy/zarr/json.h"

// RapidJSON's stack begins as a null pointer and is compared with null plus a size, which clang's sanitizer stops at.
#ifdef __clang__
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>
#ifdef __clang__
#pragma clang attribute pop
#endif

#include <algorithm>
#include <charconv>
#include <tuple>

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/text.h"
#include "damacy/zarr/detail/json_stream.h"
#include "damacy/zarr/detail/json_zone.h"

namespace damacy::json {
// Receives RapidJSON's events. Each returns false to stop; then `failure` says why.
class TreeBuilder {
 public:
  TreeBuilder(Document& document, Form form, const NumberHidingStream& stream)
      : document_(document), form_(form), stream_(stream) {}

  bool Null() { return add(Kind::null, begin_value(), {}); }
  bool Bool(bool truth) { return add(Kind::boolean, begin_value(), truth ? "1" : ""); }
  bool RawNumber(const char*, rapidjson::SizeType, bool) {
    const auto number = stream_.number();
    const Zone zone = begin_value();
    if (limits_text(zone)) {
      if (is_bare_word(number))
        return fail(Status::decode, formatted("the bare word {} is legal in attributes only", number));
      if (number.size() > Limits::json_number_chars)
        return too_many("characters of a number", Limits::json_number_chars, number.size());
    }
    return add(Kind::number, zone, number);
  }
  bool String(const char* characters, rapidjson::SizeType bytes, bool) {
    const std::string_view string(characters, bytes);
    const Zone zone = begin_value();
    return check_string(string, zone) && add(Kind::string, zone, string);
  }
  bool Key(const char* characters, rapidjson::SizeType bytes, bool) {
    const std::string_view name(characters, bytes);
    Frame& frame = frames_.back();
    ++frame.count;
    frame.name = name;
    if (limits_members(frame.zone) && frame.count > Limits::json_members)
      return too_many("members of an object", Limits::json_members, frame.count);
    if (name.find('\0') != name.npos) return fail(Status::decode, "NUL in a name");
    return check_string(name, frame.zone);
  }
  bool StartObject() { return open(Kind::object); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool StartArray() { return open(Kind::array); }
  bool EndArray(rapidjson::SizeType) { return close(); }
  // Numbers come as text; RapidJSON's concept of a handler asks for these.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

  const std::optional<Error>& failure() const noexcept { return failure_; }
  std::string pointer() const {
    std::string path;
    for (const Frame& frame : frames_)
      if (frame.count != 0) path += frame.kind == Kind::object ? pointer_token(frame.name) : text('/', frame.count - 1);
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
    // RapidJSON has validated the text, except that it accepts an escaped lone low surrogate.
    for (auto at = string.find('\xed'); at != string.npos; at = string.find('\xed', at + 1))
      if (static_cast<unsigned char>(string[at + 1]) >= 0xa0) return fail(Status::decode, "lone surrogate in a string");
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
  const NumberHidingStream& stream_;
  std::vector<Frame> frames_;
  std::optional<Error> failure_;
};

namespace {

Error not_json(std::string_view why) {
  return Error(Status::decode, formatted("not JSON: {}", why), "json");
}

}  // namespace

Document Document::parse(std::string_view text_, Form form) {
  if (text_.empty()) throw not_json("the document is empty");
  if (text_.starts_with("\xef\xbb\xbf")) throw not_json("the document begins with a byte-order mark");
  if (text_.find('\0') != text_.npos) throw not_json("the document holds a NUL byte");
  Document document;
  NumberHidingStream stream(text_);
  TreeBuilder builder(document, form, stream);
  rapidjson::Reader reader;
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseValidateEncodingFlag;
  const auto result = reader.Parse<kFlags>(stream, builder);
  if (builder.failure()) throw *builder.failure();
  if (result.IsError())
    throw not_json(formatted("{} (byte {})", rapidjson::GetParseError_En(result.Code()), result.Offset()))
        .at_pointer(builder.pointer());
  return document;
}

std::string_view name_of(Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"null", "a boolean", "a number", "a string", "a list", "an object"};
  return kNames[static_cast<int>(kind)];
}

std::string pointer_token(std::string_view name) {
  std::string token = "/";
  for (const char c : name) {
    if (c == '~')
      token += "~0";
    else if (c == '/')
      token += "~1";
    else
      token += c;
  }
  return token;
}

Kind Value::kind() const noexcept {
  return document_->nodes_[node_].kind;
}
bool Value::truth() const noexcept {
  return document_->nodes_[node_].truth;
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
  return parent.pointer() + (parent.is(Kind::object) ? pointer_token(name()) : damacy::text('/', node.index));
}

Error Value::error(Status status, std::string message, std::string reason) const {
  return Error(status, std::move(message), std::move(reason)).at_pointer(pointer());
}

Error Value::unsupported(std::string message, std::string reason) const {
  return Error::unsupported(std::move(message), std::move(reason)).at_pointer(pointer());
}

Value Value::expect(Kind wanted) const {
  if (!is(wanted))
    throw error(Status::decode, damacy::text("expected ", name_of(wanted), ", found ", name_of(kind())), "metadata");
  const auto duplicate = document_->nodes_[node_].duplicate;
  if (duplicate != Document::kNone) {
    const Value member(document_, duplicate);
    throw member.error(Status::decode, damacy::text("member '", member.name(), "' occurs twice"), "duplicate-key");
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
  if (!exact) throw error(Status::decode, damacy::text("expected an integer, found ", digits), "metadata");
  std::int64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool too_large = parsed.ec != std::errc{} && digits[0] != '-';
  if (too_large) throw error(Status::inval, damacy::text(digits, " is not below the limit 2^63"), "limit");
  if (parsed.ec != std::errc{} || number < min)
    throw error(Status::decode, damacy::text("expected an integer of at least ", min, ", found ", digits), "metadata");
  return number;
}

}  // namespace damacy::json
