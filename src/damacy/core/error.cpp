#include "damacy/core/error.h"

#include <algorithm>

#include "damacy/core/address_space.h"
#include "damacy/core/dims.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

std::string_view status_words(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::again:
      return "nothing to pop now";
    case Status::inval:
      return "invalid argument";
    case Status::notfound:
      return "not found";
    case Status::dtype:
      return "dtype mismatch";
    case Status::rank:
      return "rank mismatch";
    case Status::io:
      return "io error";
    case Status::decode:
      return "decode error";
    case Status::cuda:
      return "cuda error";
    case Status::oom:
      return "out of memory";
    case Status::shutdown:
      return "shut down";
  }
  return "error";
}

// Length of the valid UTF-8 sequence at `at`, 0 when there is none.
std::size_t utf8_length(std::string_view raw, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(raw[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || at + length > raw.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  const unsigned second = byte(at + 1);
  if (lead == 0xe0 && second < 0xa0) return 0;  // overlong
  if (lead == 0xed && second > 0x9f) return 0;  // surrogate
  if (lead == 0xf0 && second < 0x90) return 0;  // overlong
  if (lead == 0xf4 && second > 0x8f) return 0;  // beyond Unicode
  return length;
}

// Controls and line ends, of ASCII and beyond: U+0080 to U+009F, U+2028 and U+2029.
bool breaks_line(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (character.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  return character == "\xe2\x80\xa8" || character == "\xe2\x80\xa9";
}

bool is_document(std::string_view key) {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  return name == "zarr.json" || name.starts_with(".z");
}

// Whether a key ends in these coordinates, whatever stands between them.
bool ends_in(std::string_view key, const std::vector<std::int64_t>& coordinates) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (auto at = coordinates.rbegin(); at != coordinates.rend(); ++at) {
    while (at != coordinates.rbegin() && !key.empty() && !is_digit(key.back())) key.remove_suffix(1);
    const std::string number = formatted("{}", *at);
    if (!key.ends_with(number)) return false;
    key.remove_suffix(number.size());
    if (!key.empty() && is_digit(key.back())) return false;
  }
  return true;
}

// What the key names, for describe(): a document has a known name; a key whose coordinates differ from the chunk's is a
// shard. Any other key may be an unsharded chunk.
std::string object_text(const ErrorWhere& where) {
  if (is_document(where.key)) return where.key;
  const bool holds_chunk = where.key_is_shard || (where.chunk && !ends_in(where.key, *where.chunk));
  return formatted("{}{}", holds_chunk ? "shard " : "object ", where.key);
}

void escape(std::string& out, std::string_view bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
}

}  // namespace

std::string one_line(std::string_view raw, std::size_t limit) {
  std::string out;
  out.reserve(raw.size());
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t length = utf8_length(raw, at);
    const std::string_view character = raw.substr(at, std::max<std::size_t>(length, 1));
    if (length == 0 || breaks_line(character))
      escape(out, character);
    else
      out.append(character);
    at += character.size();
  }
  if (out.size() <= limit) return out;
  std::size_t head = (limit - 5) / 2;
  std::size_t tail = out.size() - (limit - 5 - head);
  const auto continues = [&](std::size_t i) { return (static_cast<unsigned char>(out[i]) & 0xc0) == 0x80; };
  while (head > 0 && continues(head)) --head;
  while (tail < out.size() && continues(tail)) ++tail;
  return out.substr(0, head) + " ... " + out.substr(tail);
}

std::string without_secrets(std::string_view uri) {
  const std::size_t scheme = uri.find("://");
  if (scheme == std::string_view::npos) return std::string(uri);
  const std::size_t authority = scheme + 3;
  const std::size_t path = std::min(uri.find('/', authority), uri.size());
  const std::size_t user = uri.substr(0, path).rfind('@');
  const std::size_t host = user == std::string_view::npos || user < authority ? authority : user + 1;
  const std::string_view rest = uri.substr(host);
  return std::string(uri.substr(0, authority)) + std::string(rest.substr(0, rest.find_first_of("?#")));
}

Error current_error() noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      return error;
    } catch (const std::bad_alloc&) {
      return Error(Status::oom, formatted("no memory left on the host{}", address_space_note()), "memory");
    } catch (const std::length_error&) {  // more elements than addresses
      return Error(Status::oom, "no memory could hold so much", "memory");
    } catch (const std::exception& error) {
      return Error(Status::io, formatted("internal: {}", std::string_view(error.what())), "io");
    }
  } catch (const std::exception&) {  // no memory for the words
    return Error::out_of_memory();
  }
}

std::string describe(Status status, std::string_view message, const ErrorWhere& where) {
  std::string line;
  const auto add = [&](std::string_view part) {
    if (part.empty()) return;
    if (!line.empty()) line += ": ";
    line += one_line(part, 1024);
  };
  add(where.what);
  if (where.batch_id) add(formatted("batch {}", *where.batch_id));
  if (where.stream_index)
    add(formatted("sample {}", *where.stream_index));
  else if (where.sample_index)
    add(formatted("sample {} of its source", *where.sample_index));
  add(one_line(where.array, 64));
  add(without_secrets(where.uri.empty() ? where.store : where.uri));
  if (!where.uri.empty() && !where.store.empty() && where.store != where.uri)
    add(formatted("store {}", without_secrets(where.store)));
  if (!where.key.empty()) add(object_text(where));
  add(where.pointer);
  if (where.chunk) add(formatted("chunk {}", tuple_text(*where.chunk)));
  if (where.byte_range) add(formatted("bytes {}-{}", where.byte_range->first, where.byte_range->second));
  add(message);
  line += formatted(" ({}", status_words(status));
  if (!where.reason.empty()) line += formatted(", {}", one_line(where.reason, 64));
  line += ')';
  if (where.stream_index && where.sample_index) line += formatted(" [sample {} of its source]", *where.sample_index);
  if (!where.lost.empty()) {
    std::vector<std::int64_t> shown(where.lost.begin(),
                                    where.lost.begin() + std::min<std::size_t>(where.lost.size(), 8));
    line += formatted(" [lost {} samples: {}{}]", where.lost.size(), tuple_text(shown),
                      where.lost.size() > 8 ? " ..." : "");
  }
  return one_line(line, Limits::error_text_bytes);
}

struct Error::State {
  Status status;
  std::string message;
  ErrorWhere where;
  ErrorKind kind = ErrorKind::plain;
  int system_errno = 0;
  bool sticky = false;
  std::shared_ptr<const void> cause = nullptr;
  std::string line = describe(status, message, where);
};

namespace {

void keep_first(std::string& field, std::string_view value) {
  if (field.empty()) field = value;
}
template <class T, class U>
void keep_first(std::optional<T>& field, U&& value) {
  if (!field) field = std::forward<U>(value);
}

// Before the first use, which may be the one that finds no memory.
[[maybe_unused]] const Error& made_at_loading = Error::out_of_memory();

}  // namespace

Error::Error(std::shared_ptr<const State> state) noexcept : std::runtime_error(""), state_(std::move(state)) {}

Error::Error(Status status, std::string message, std::string reason) noexcept : Error(out_of_memory()) {
  try {
    ErrorWhere where;
    where.reason = std::move(reason);
    state_ = std::make_shared<const State>(State{status, std::move(message), std::move(where)});
  } catch (const std::exception&) {  // no memory: as it was made
  }
}

Error::~Error() = default;

Error Error::unsupported(std::string message, std::string reason) noexcept {
  return Error(Status::decode, std::move(message), std::move(reason)).with_kind(ErrorKind::unsupported_format);
}

const Error& Error::out_of_memory() noexcept {
  // Never destroyed: threads may be stuck while the process exits.
  static const auto* const made = [] {
    ErrorWhere where;
    where.reason = "memory";
    return new Error(std::make_shared<const State>(State{Status::oom, "no memory left on the host", std::move(where)}));
  }();
  return *made;
}

const char* Error::what() const noexcept {
  return state_->line.c_str();
}
Status Error::status() const noexcept {
  return state_->status;
}
ErrorKind Error::kind() const noexcept {
  return state_->kind;
}
int Error::system_errno() const noexcept {
  return state_->system_errno;
}
bool Error::sticky() const noexcept {
  return state_->sticky;
}
const std::string& Error::message() const noexcept {
  return state_->message;
}
const ErrorWhere& Error::where() const noexcept {
  return state_->where;
}
const std::shared_ptr<const void>& Error::cause() const noexcept {
  return state_->cause;
}

template <class Change>
Error& Error::extend(Change change) noexcept {
  try {
    auto next = std::make_shared<State>(*state_);
    change(*next);
    next->line = describe(next->status, next->message, next->where);
    state_ = std::move(next);
  } catch (const std::exception&) {
    state_ = out_of_memory().state_;
  }
  return *this;
}

Error& Error::with_kind(ErrorKind kind) noexcept {
  return extend([&](State& state) { state.kind = kind; });
}
Error& Error::with_errno(int number) noexcept {
  return extend([&](State& state) { state.system_errno = number; });
}
Error& Error::with_sticky(bool sticky) noexcept {
  return extend([&](State& state) { state.sticky = sticky; });
}
Error& Error::with_cause(std::shared_ptr<const void> cause) noexcept {
  return extend([&](State& state) { state.cause = std::move(cause); });
}
Error& Error::in_stage(std::string_view what) noexcept {
  return extend([&](State& state) { keep_first(state.where.what, what); });
}
Error& Error::at_array(std::string_view name) noexcept {
  return extend([&](State& state) { keep_first(state.where.array, name); });
}
Error& Error::at_uri(std::string_view uri) noexcept {
  return extend([&](State& state) { keep_first(state.where.uri, without_secrets(uri)); });
}
Error& Error::at_store(std::string_view store) noexcept {
  return extend([&](State& state) { keep_first(state.where.store, without_secrets(store)); });
}
Error& Error::at_key(std::string_view key) noexcept {
  return extend([&](State& state) { keep_first(state.where.key, key); });
}
Error& Error::in_shard(bool is_shard) noexcept {
  return extend([&](State& state) { state.where.key_is_shard |= is_shard; });
}
Error& Error::at_pointer(std::string_view pointer) noexcept {
  return extend([&](State& state) { keep_first(state.where.pointer, pointer); });
}
Error& Error::at_chunk(std::vector<std::int64_t> chunk) noexcept {
  return extend([&](State& state) { keep_first(state.where.chunk, std::move(chunk)); });
}
Error& Error::at_bytes(std::uint64_t start, std::uint64_t stop) noexcept {
  return extend([&](State& state) { keep_first(state.where.byte_range, std::pair{start, stop}); });
}
Error& Error::with_http(int status, std::string_view request_id, int attempts) noexcept {
  return extend([&](State& state) {
    if (status != 0) keep_first(state.where.http_status, status);
    keep_first(state.where.request_id, request_id);
    keep_first(state.where.attempts, attempts);
  });
}
Error& Error::at_sample(std::int64_t index) noexcept {
  return extend([&](State& state) { keep_first(state.where.sample_index, index); });
}
Error& Error::at_stream_index(std::int64_t index) noexcept {
  return extend([&](State& state) { keep_first(state.where.stream_index, index); });
}
Error& Error::at_batch(std::int64_t id, std::vector<std::int64_t> lost) noexcept {
  return extend([&](State& state) {
    keep_first(state.where.batch_id, id);
    if (state.where.lost.empty()) state.where.lost = std::move(lost);
  });
}
Error& Error::moved_to(std::string_view store, std::string_view key) noexcept {
  return extend([&](State& state) {
    state.where.store = without_secrets(store);
    if (!state.where.key.empty()) state.where.key = key;
  });
}
Error& Error::with_note(std::string_view note) noexcept {
  return extend([&](State& state) { state.message += formatted("; {}", note); });
}

}  // namespace damacy
