// Reads a document of references.
#include <charconv>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/json_events.h"
#include "damacy/core/limits.h"
#include "damacy/store/references.h"

namespace damacy {
namespace {

constexpr std::string_view kBase64 = "base64:";

// Strict: whole groups of four characters, with padding. Empty: it is not that.
std::optional<std::string> base64_decoded(std::string_view encoded) {
  if (encoded.size() % 4 != 0) return std::nullopt;
  std::string decoded;
  decoded.reserve(encoded.size() / 4 * 3);
  const std::size_t padding = encoded.ends_with("==") ? 2 : encoded.ends_with('=') ? 1 : 0;
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = i + padding >= encoded.size() ? 0 : kDigits.find(encoded[i]);
    if (digit == kDigits.npos) return std::nullopt;
    group = group << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (const int shift : {16, 8, 0}) decoded += static_cast<char>(group >> shift & 0xff);
    group = 0;
  }
  decoded.resize(decoded.size() - padding);
  return decoded;
}

// Below 2^63.
std::optional<std::uint64_t> count_of(std::string_view digits) {
  std::int64_t number = 0;
  const auto end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end || number < 0 || digits.starts_with('-')) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

enum class Kind : std::uint8_t { null, boolean, number, string, array, object };

// A value as it stands in the document, for errors. Strings may be urls, which may hold secrets.
std::string shown(Kind kind, std::string_view text) {
  if (kind == Kind::array) return "a list";
  if (kind == Kind::object) return "an object";
  return kind == Kind::string ? "a string" : one_line(text, 64);
}

// Collects the references. If an event ends the reading, `failure` says why.
class ReferencesReader final : public JsonEvents {
 public:
  ReferencesReader(std::string_view document, References& references) : document_(document), references_(references) {}

  bool null() override { return value(Kind::null, "null"); }
  bool boolean(bool truth) override { return value(Kind::boolean, truth ? "true" : "false"); }
  bool number(std::string_view text) override { return value(Kind::number, text); }
  bool string(std::string_view text) override { return value(Kind::string, text); }

  bool name(std::string_view name) override {
    if (depth_ == 1) return begin_member(name);
    if (section_ == Section::refused) return refuse_section();
    if (depth_ != 2 || section_ != Section::refs) return true;
    key_ = name;
    if (++count_ > Limits::references)
      return fail(Status::inval, formatted("more references than the limit of {}", Limits::references), "limit");
    if (has_lone_surrogate(name)) return fail(Status::decode, "lone surrogate in a name", "json");
    const auto failure = failure_of([&] { check_key(name); });
    if (failure) return fail(failure->status(), failure->message(), failure->where().reason);
    return true;
  }

  bool begin_object(std::size_t at) override { return open(Kind::object, at); }
  bool begin_array(std::size_t at) override { return open(Kind::array, at); }
  bool end_object(std::size_t at) override {
    --depth_;
    if (is_reference()) references_.add_data(key_, document_.substr(value_at_, at + 1 - value_at_));
    return true;
  }
  bool end_array(std::size_t) override {
    --depth_;
    return !is_reference() || add_list();
  }

  // After the whole document.
  void check_members() {
    if (!has_version_)
      fail(Status::decode, "member 'version' is missing: references are read from documents of version 1", "metadata");
    else if (!has_refs_)
      fail(Status::decode, "member 'refs' is missing", "metadata");
  }

  const std::optional<Error>& failure() const noexcept { return failure_; }
  std::string pointer() const {
    std::string at = member_.empty() ? std::string() : pointer_token(member_);
    if (section_ == Section::refs && !key_.empty()) at += pointer_token(key_);
    return at;
  }

 private:
  enum class Section : std::uint8_t { version, refs, refused, other };

  // Whether the value now is that of a key.
  bool is_reference() const { return depth_ == 2 && section_ == Section::refs; }

  bool begin_member(std::string_view name) {
    member_ = name;
    key_.clear();
    section_ = name == "version"                      ? Section::version
               : name == "refs"                       ? Section::refs
               : name == "templates" || name == "gen" ? Section::refused
                                                      : Section::other;
    if ((section_ == Section::version && has_version_) || (section_ == Section::refs && has_refs_))
      return fail(Status::decode, formatted("member '{}' occurs twice", name), "duplicate-key");
    return true;
  }

  bool refuse_section() {
    failure_ = Error::unsupported(
        formatted("the document has {}, which damacy does not expand: write it without them, or mount a store of "
                  "zarr-python that reads it (zarr.storage.FsspecStore of a ReferenceFileSystem)",
                  member_),
        "references");
    failure_->at_pointer(pointer_token(member_));
    return false;
  }

  bool value(Kind kind, std::string_view text) {
    if (depth_ == 0) return fail(Status::decode, "expected an object", "metadata");
    if (section_ == Section::refused) return depth_ == 1 && kind == Kind::null ? true : refuse_section();
    if (depth_ == 1) return root_value(kind, text);
    if (is_reference()) return kind == Kind::string ? add_text(text) : refuse_value(shown(kind, text));
    if (depth_ == 3 && section_ == Section::refs && in_list_) return add_item(kind, text);
    return true;
  }

  bool root_value(Kind kind, std::string_view text) {
    if (section_ == Section::refs) return fail(Status::decode, "expected an object", "metadata");
    if (section_ != Section::version) return true;
    has_version_ = true;
    if (kind != Kind::number || text != "1")
      return fail(Status::decode,
                  formatted("references are read from documents of version 1, found {}", shown(kind, text)),
                  "metadata");
    return true;
  }

  bool open(Kind kind, std::size_t at) {
    if (depth_ == Limits::json_nesting)
      return fail(Status::inval, formatted("more levels of nesting than the limit of {}", Limits::json_nesting),
                  "limit");
    if (depth_ == 0 && kind != Kind::object) return fail(Status::decode, "expected an object", "metadata");
    if (depth_ >= 2 && section_ == Section::refused) return refuse_section();
    if (depth_ == 1 && section_ == Section::version) return root_value(kind, {});
    if (depth_ == 1 && section_ == Section::refs) {
      has_refs_ = true;
      if (kind != Kind::object) return fail(Status::decode, "expected an object", "metadata");
    }
    if (depth_ == 3 && section_ == Section::refs && in_list_) return refuse_value(shown(kind, {}));
    if (is_reference()) {
      in_list_ = kind == Kind::array;
      items_ = 0;
      value_at_ = at;
    }
    ++depth_;
    return true;
  }

  bool add_text(std::string_view text) {
    if (has_lone_surrogate(text)) return fail(Status::decode, "lone surrogate in a string", "json");
    if (!text.starts_with(kBase64)) {
      references_.add_data(key_, text);
      return true;
    }
    const auto decoded = base64_decoded(text.substr(kBase64.size()));
    if (!decoded) return fail(Status::decode, "the data are not base64", "metadata");
    references_.add_data(key_, *decoded);
    return true;
  }

  bool add_item(Kind kind, std::string_view text) {
    const int item = items_++;
    if (item == 0 && kind == Kind::string) {
      url_ = text;
      return check_url();
    }
    const auto count = kind == Kind::number ? count_of(text) : std::nullopt;
    if (item == 0 || item > 2 || !count) return refuse_value(shown(kind, text));
    (item == 1 ? range_.offset : range_.bytes) = *count;
    return true;
  }

  bool check_url() {
    const auto failure = failure_of([&] { check_uri_text(url_); });
    if (failure) return fail(failure->status(), failure->message(), failure->where().reason);
    if (has_lone_surrogate(url_)) return fail(Status::decode, "lone surrogate in a string", "json");
    return true;
  }

  bool add_list() {
    if (items_ != 1 && items_ != 3) return refuse_value(formatted("a list of {}", items_));
    if (items_ == 3 && range_.bytes > (std::uint64_t{1} << 63) - 1 - range_.offset)
      return fail(Status::decode, "offset and length together are not below 2^63", "metadata");
    references_.add(key_, url_, items_ == 3 ? std::optional(range_) : std::nullopt);
    return true;
  }

  bool refuse_value(std::string_view found) {
    return fail(Status::decode, formatted("expected a string, [url] or [url, offset, length], found {}", found),
                "metadata");
  }

  bool fail(Status status, std::string message, std::string reason) {
    failure_ = Error(status, std::move(message), std::move(reason));
    failure_->at_pointer(pointer());
    return false;
  }

  const std::string_view document_;
  References& references_;
  std::size_t depth_ = 0;  // containers that are open
  Section section_ = Section::other;
  std::string member_, key_;  // the last names of the first two levels
  bool has_version_ = false, has_refs_ = false;
  bool in_list_ = false;  // the last reference began a list; else an object
  int items_ = 0;
  std::size_t value_at_ = 0;
  std::string url_;
  References::Range range_;
  std::uint64_t count_ = 0;
  std::optional<Error> failure_;
};

}  // namespace

References References::parse(std::string_view document) {
  if (document.size() > Limits::group_document_bytes)
    throw Error(Status::inval,
                formatted("larger than the limit: {} bytes, limit {}", document.size(), Limits::group_document_bytes),
                "limit");
  References references;
  ReferencesReader reader(document, references);
  try {
    if (read_json(document, reader)) reader.check_members();
  } catch (const Error& e) {
    throw Error(e).at_pointer(reader.pointer());
  }
  if (reader.failure()) throw *reader.failure();
  if (const auto twin = references.finish())
    throw Error(Status::decode, formatted("member '{}' occurs twice", *twin), "duplicate-key")
        .at_pointer(formatted("/refs{}", pointer_token(*twin)));
  return references;
}

}  // namespace damacy
