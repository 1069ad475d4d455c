// Validates keys and uris, and numbers stores. Knows their syntax and the working directory; opens nothing.
#include "damacy/store/store.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <system_error>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"

namespace damacy {

static_assert(ReadShape{}.gap == Limits::read_gap_bytes);

namespace {

[[noreturn]] void refuse_key(std::string_view key, std::string_view why) {
  throw Error(Status::inval, formatted("not a store key: {}", why), "limit").at_key(key);
}

[[noreturn]] void refuse_uri(std::string_view uri, std::string_view why) {
  throw Error(Status::inval, formatted("uri {}", why), "uri").at_uri(uri);
}

bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_scheme_char(char c) {
  return is_alpha(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
  return -1;
}

std::string percent_decoded(std::string_view uri, std::string_view encoded) {
  std::string decoded;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      decoded += encoded[i];
      continue;
    }
    const int high = i + 2 < encoded.size() ? hex_value(encoded[i + 1]) : -1;
    const int low = i + 2 < encoded.size() ? hex_value(encoded[i + 2]) : -1;
    if (high < 0 || low < 0) refuse_uri(uri, "has a '%' without two hexadecimal digits behind it");
    if (high == 0 && low == 0) refuse_uri(uri, "holds a NUL");
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

}  // namespace

void check_key(std::string_view key) {
  if (key.size() > Limits::key_bytes)
    refuse_key(key, formatted("longer than {} bytes (has {})", Limits::key_bytes, key.size()));
  if (key.find('\0') != std::string_view::npos) refuse_key(key, "holds a NUL");
  std::uint64_t components = 0;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view part = key.substr(begin, end - begin);
    if (part.empty()) refuse_key(key, "has an empty part");
    if (part == "." || part == "..") refuse_key(key, formatted("has a part '{}'", part));
    if (++components > Limits::key_components)
      refuse_key(key, formatted("has more than {} components", Limits::key_components));
    begin = end + 1;
  }
}

std::uint64_t Store::next_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// A forked child has stores of its own, which are numbered as its parent's.
std::string Store::cache_identity() const {
  static const std::uint64_t process = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  std::string known = identity();
  return known.empty() ? formatted("store {} {} {}", process, ::getpid(), number_) : known;
}

std::string scheme_of_uri(std::string_view uri) {
  const std::size_t end = uri.find("://");
  if (end == std::string_view::npos || end == 0 || !is_alpha(uri[0])) return {};
  std::string scheme(uri.substr(0, end));
  if (!std::all_of(scheme.begin(), scheme.end(), is_scheme_char)) return {};
  std::transform(scheme.begin(), scheme.end(), scheme.begin(), lower);
  return scheme;
}

std::unique_ptr<StartedRead> Object::start_read(std::uint64_t offset, std::span<std::byte> dst,
                                                std::function<void()> landed) {
  class Read final : public StartedRead {
   public:
    Read(Object& object, std::uint64_t offset, std::span<std::byte> dst)
        : object_(object), offset_(offset), dst_(dst) {}
    void finish() override { object_.read_exact(offset_, dst_); }

   private:
    Object& object_;
    const std::uint64_t offset_;
    const std::span<std::byte> dst_;
  };
  auto read = std::make_unique<Read>(*this, offset, dst);
  landed();
  return read;
}

Error Object::as_of_part(const Error& error) const {
  return error;
}

void check_uri_text(std::string_view uri) {
  if (uri.empty()) refuse_uri(uri, "is empty");
  if (uri.size() > Limits::uri_bytes)
    refuse_uri(uri, formatted("is longer than {} bytes (has {})", Limits::uri_bytes, uri.size()));
  if (uri.find('\0') != std::string_view::npos) refuse_uri(uri, "holds a NUL");
}

std::string path_of_uri(std::string_view uri) {
  check_uri_text(uri);
  const std::string scheme = scheme_of_uri(uri);
  if (scheme.empty()) return std::string(uri);
  if (scheme != "file") refuse_uri(uri, formatted("has the unsupported scheme {}: use a path or file:///path", scheme));
  const std::string_view rest = uri.substr(scheme.size() + 3);
  if (rest.empty() || rest[0] != '/') refuse_uri(uri, "names a host; a file is file:///path");
  return percent_decoded(uri, rest);
}

bool is_relative_path(std::string_view uri) {
  return !uri.empty() && uri[0] != '/' && scheme_of_uri(uri).empty();
}

std::string absolute_path(const std::string& path) {
  if (path.starts_with('/')) return path;
  std::error_code failed;
  const auto here = std::filesystem::current_path(failed);
  return failed ? path : (here / path).string();
}

}  // namespace damacy
