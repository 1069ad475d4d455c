// The one exception class of the library: a status, a message, and the place. Each layer fills in the fields that it
// knows on the way up. describe() makes the line that users read. Making, copying and extending an Error never throws:
// without memory it becomes Error::out_of_memory().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace damacy {

enum class Status : int {
  ok = 0,
  again = 1,
  inval = 2,
  notfound = 3,
  dtype = 4,
  rank = 5,
  io = 6,
  decode = 7,
  cuda = 8,
  oom = 9,
  shutdown = 10,
};

// Selects the Python class: most statuses have one class, two have a subclass.
enum class ErrorKind { plain, unsupported_format, pop_timeout };

// The attributes of Python's exceptions; empty means unknown.
struct ErrorWhere {
  std::string what;   // stage: create push pop flush release closed forked
  std::string array;  // its name in the sample
  std::string uri;
  std::string store;
  std::string key;      // object below the store: a metadata document, a shard, a lone chunk
  std::string pointer;  // JSON pointer into a metadata document
  bool key_is_shard = false;
  std::optional<std::vector<std::int64_t>> chunk;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> byte_range;
  std::string reason;  // short code
  std::optional<std::int64_t> sample_index;
  std::optional<std::int64_t> stream_index;
  std::optional<std::int64_t> batch_id;
  std::vector<std::int64_t> lost;
  std::optional<int> http_status;  // of the last answer of a server
  std::string request_id;          // by which the server knows that request
  std::optional<int> attempts;     // of the request
};

class Error : public std::runtime_error {
 public:
  Error(Status status, std::string message, std::string reason = {}) noexcept;
  // Copies share one immutable state. There is no move: an Error always has a state.
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;
  ~Error() override;

  static Error unsupported(std::string message, std::string reason) noexcept;
  // Allocated when the library is loaded.
  static const Error& out_of_memory() noexcept;

  const char* what() const noexcept override;  // describe(), made once
  Status status() const noexcept;
  ErrorKind kind() const noexcept;
  int system_errno() const noexcept;
  bool sticky() const noexcept;
  // These live as long as an Error with the same state, and until it is extended.
  const std::string& message() const noexcept;
  const ErrorWhere& where() const noexcept;
  // What a store of another language threw, for its bindings; else null.
  const std::shared_ptr<const void>& cause() const noexcept;

  // Each returns *this, for `throw e.at_key("c/0/1")`. A field that is already set is not changed: the innermost layer
  // sets it first.
  Error& with_kind(ErrorKind kind) noexcept;
  Error& with_errno(int number) noexcept;
  Error& with_sticky(bool sticky) noexcept;
  Error& with_cause(std::shared_ptr<const void> cause) noexcept;
  Error& in_stage(std::string_view what) noexcept;
  Error& at_array(std::string_view name) noexcept;
  Error& at_uri(std::string_view uri) noexcept;
  Error& at_store(std::string_view store) noexcept;
  Error& at_key(std::string_view key) noexcept;
  Error& in_shard(bool is_shard = true) noexcept;  // the key is a shard's
  Error& at_pointer(std::string_view pointer) noexcept;
  Error& at_chunk(std::vector<std::int64_t> chunk) noexcept;
  Error& at_bytes(std::uint64_t start, std::uint64_t stop) noexcept;
  Error& at_sample(std::int64_t index_in_source) noexcept;
  Error& at_stream_index(std::int64_t index) noexcept;
  Error& at_batch(std::int64_t id, std::vector<std::int64_t> lost) noexcept;
  // What a server answered last, 0: nothing; and how often it was asked.
  Error& with_http(int status, std::string_view request_id, int attempts) noexcept;
  // Replaces the store and, if it is set, the key: for a store that shows part of another one under shorter keys.
  Error& moved_to(std::string_view store, std::string_view key) noexcept;
  Error& with_note(std::string_view note) noexcept;  // appended to the message: "; <note>"

 private:
  struct State;
  explicit Error(std::shared_ptr<const State> state) noexcept;
  template <class Change>
  Error& extend(Change change) noexcept;

  std::shared_ptr<const State> state_;
};
static_assert(std::is_nothrow_copy_constructible_v<Error> && std::is_nothrow_copy_assignable_v<Error>);

// The std::exception in flight, converted to an Error. Call it inside a catch block.
[[nodiscard]] Error current_error() noexcept;

// Calls `step`; returns its exception as an Error, or nothing. Other exceptions than std::exception pass through.
template <class Step>
[[nodiscard]] std::optional<Error> failure_of(Step&& step) {
  try {
    std::forward<Step>(step)();
    return std::nullopt;
  } catch (const std::exception&) {
    return current_error();
  }
}

// `error` with what `add`, called with an Error&, knows more. What `add` throws takes its place.
template <class Add>
[[nodiscard]] Error extended(Error error, Add&& add) {
  if (const auto failure = failure_of([&] { std::forward<Add>(add)(error); })) return *failure;
  return error;
}

// One line, large to small: "pop: batch 12: sample 99: a.zarr: shard c/0/1: chunk (0, 5): bytes 40-80: message (io
// error)".
[[nodiscard]] std::string describe(Status status, std::string_view message, const ErrorWhere& where);

// If the uri has a scheme: the uri without user-info, query and fragment. Otherwise unchanged.
[[nodiscard]] std::string without_secrets(std::string_view uri);

// Escapes control characters, line ends (also Unicode's) and invalid UTF-8 as \xNN. Cuts text longer than `limit` in
// the middle.
[[nodiscard]] std::string one_line(std::string_view raw, std::size_t limit);

}  // namespace damacy
