// The one exception of the library: a status, a message, and where it happened.
// A layer that knows more fills in its own fields on the way up; describe() makes the line a user reads.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
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

// Which Python class: most statuses have one, two have a subclass.
enum class ErrorKind { plain, unsupported_format, pop_timeout };

// The attributes of Python's exceptions; empty means unknown.
struct ErrorWhere {
  std::string what;  // stage: create push pop flush release closed forked
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
};

class Error : public std::runtime_error {
 public:
  Error(Status status, std::string message, std::string reason = {});

  static Error unsupported(std::string message, std::string reason);

  const char* what() const noexcept override { return line_.c_str(); }  // describe(), made once
  Status status() const noexcept { return status_; }
  ErrorKind kind() const noexcept { return kind_; }
  int system_errno() const noexcept { return errno_; }
  bool sticky() const noexcept { return sticky_; }
  const std::string& message() const noexcept { return message_; }
  const ErrorWhere& where() const noexcept { return where_; }

  // Each returns *this, for `throw e.at_key("c/0/1")`; a field that is already set stays: the first to know it knew
  // best.
  Error& with_kind(ErrorKind kind);
  Error& with_errno(int number);
  Error& with_sticky(bool sticky);
  Error& in_stage(std::string_view what);
  Error& at_uri(std::string_view uri);
  Error& at_store(std::string_view store);
  Error& at_key(std::string_view key);
  Error& in_shard(bool is_shard = true);  // the key is a shard's
  Error& at_pointer(std::string_view pointer);
  Error& at_chunk(std::vector<std::int64_t> chunk);
  Error& at_bytes(std::uint64_t start, std::uint64_t stop);
  Error& at_sample(std::int64_t index_in_source);
  Error& at_stream_index(std::int64_t index);
  Error& at_batch(std::int64_t id, std::vector<std::int64_t> lost);
  Error& with_note(std::string_view note);  // appended to the message: "; <note>"

 private:
  void render();

  Status status_;
  ErrorKind kind_ = ErrorKind::plain;
  int errno_ = 0;
  bool sticky_ = false;
  std::string message_;
  std::string line_;
  ErrorWhere where_;
};

// The exception in flight as one of ours. Call it inside a catch block.
[[nodiscard]] Error current_error();

// One line, large to small: "pop: batch 12: sample 99: a.zarr: shard c/0/1: chunk (0, 5): bytes 40-80: message (io
// error)".
[[nodiscard]] std::string describe(Status status, std::string_view message, const ErrorWhere& where);

// A uri with a scheme without user-info, query and fragment; anything else as it is.
[[nodiscard]] std::string without_secrets(std::string_view uri);

// Control characters, line ends (Unicode's, too) and invalid UTF-8 become \xNN; longer than `limit` is cut in the
// middle.
[[nodiscard]] std::string one_line(std::string_view raw, std::size_t limit);

}  // namespace damacy
