// Where bytes are: a Store holds objects under keys; an Object is one opened version of one of them.
// Knows names, sizes and bytes; does not know what they mean. The contract: tests/conformance/store_suite.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace damacy {

class Error;
class Object;

// Identifies a version of an object.
struct Stamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};
[[nodiscard]] constexpr std::array<std::uint64_t, 4> words_of(const Stamp& stamp) noexcept {
  return {stamp.device, stamp.inode, stamp.size, static_cast<std::uint64_t>(stamp.modified_ns)};
}

// A chunk, an index or a document as it is stored: what a cache keeps as a whole.
struct StoredPiece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Where a piece of an object may be read.
enum class Nearness {
  far,     // in the store
  wanted,  // in the store; keep_piece() would keep it
  near,    // read_pieces() probably asks no other machine for it
};

// How reads of an object's neighbouring pieces become one.
struct ReadShape {
  std::uint64_t gap = 4096;    // the largest between two of them; Limits::read_gap_bytes
  bool mostly_wanted = false;  // at most a quarter of what is read is in gaps
};

// Bytes that stay as they are while `owner` lives; null: none.
struct HeldBytes {
  std::span<const std::byte> bytes{};
  std::shared_ptr<const void> owner{};
};

// An object that others are parts of, and where one of them begins in it.
struct WholeObject {
  std::shared_ptr<Object> object;
  std::uint64_t offset = 0;
  // Parts of one object have the same, as long as they are open. Whether it is in the same version, its stamp says.
  const void* id = nullptr;
};

// A read that is under way without a thread that waits for it. Destroyed before its end it is cancelled: no byte lands
// afterwards.
class StartedRead {
 public:
  virtual ~StartedRead() = default;
  // Once, after `landed` was called: as read_exact(), which it ends. It may block: what failed is repeated here.
  virtual void finish() = 0;
};

// One opened version; reads may come from many threads. Closed with its last owner.
class Object {
 public:
  virtual ~Object() = default;
  virtual const Stamp& stamp() const noexcept = 0;  // at open
  // Fills all of `dst` from `offset`, or throws Error(io): reason "short-read" with the wanted and read bytes if the
  // object ends before, otherwise "io" with errno. Continues after EINTR, EAGAIN and short reads. Retries EIO, ESTALE,
  // ETIMEDOUT and ENOMEM twice.
  virtual void read_exact(std::uint64_t offset, std::span<std::byte> dst) = 0;
  // Instead of read_exact(), where the bytes are in memory anyway. Asks nothing.
  virtual HeldBytes held(std::uint64_t offset, std::uint64_t bytes) {
    static_cast<void>(offset), static_cast<void>(bytes);
    return {};
  }
  // A look-up: once for each piece that is wanted.
  virtual Nearness nearness(const StoredPiece&) noexcept { return Nearness::far; }
  // As read_exact(), of pieces in order of their offsets, which lie in `dst` as in the object. The bytes between them
  // may stay as they were. Those that are not near come from the store, and are kept if they are wanted.
  virtual void read_pieces(std::uint64_t offset, std::span<std::byte> dst, std::span<const StoredPiece> pieces) {
    static_cast<void>(pieces);
    read_exact(offset, dst);
  }
  void read_piece(std::uint64_t offset, std::span<std::byte> dst) {
    const StoredPiece piece{offset, dst.size()};
    read_pieces(offset, dst, {&piece, 1});
  }
  // `piece` is what read_exact() read of one from `offset`. Does not wait.
  virtual void keep_piece(std::uint64_t offset, std::span<const std::byte> piece) noexcept {
    static_cast<void>(offset), static_cast<void>(piece);
  }
  // What was read of the piece is not what it should be: a cache keeps it no longer. True: one had it, or would have;
  // read_exact() may find other bytes.
  virtual bool forget_piece(const StoredPiece&) noexcept { return false; }
  // What tells this version from all others, in any process; empty: nothing does. Without the size, which the stamp
  // has.
  virtual std::string version() const { return {}; }
  virtual ReadShape read_shape() const noexcept { return {}; }
  // Empty: it is a part of none. Reads of several parts of one object may become one.
  virtual std::optional<WholeObject> whole() const { return std::nullopt; }
  // The error of a read of the whole object, as one of a read of this object.
  virtual Error as_of_part(const Error& error) const;
  // Whether a started read needs no thread until its bytes are there.
  virtual bool can_start_reads() const noexcept { return false; }
  // Begins read_exact(), and calls `landed` once when the read may be finished, on another thread or before this
  // returns. `landed` returns soon, and must not destroy the read. The object and `dst` outlive the read. Unless
  // can_start_reads(), finish() reads.
  virtual std::unique_ptr<StartedRead> start_read(std::uint64_t offset, std::span<std::byte> dst,
                                                  std::function<void()> landed);
};

struct Entry {
  std::string name;
  bool is_directory;
};

// What is announced of an object: its last `bytes` are needed, or the first if not `from_end`; 0: as many as open()
// asks for.
struct Expectation {
  std::uint64_t bytes = 0;
  bool from_end = false;
  // Of all those bytes: the store need not keep them for others.
  std::size_t reads = 0;
  // Also of an object that is known, if it has no more bytes than these: nothing else keeps them.
  bool again = false;
};

class Store {
 public:
  static constexpr std::size_t kExpectedBytes = 520 << 10;  // of one object, at most, are asked for by expect()

  virtual ~Store() = default;
  virtual std::string name() const = 0;  // what errors call it: the path of the root
  // For errors: why nothing is found below the root, if the root itself is the cause; else empty.
  virtual std::string why_absent() { return {}; }
  // Each call is a request to another machine: what is only asked to warn is not asked.
  virtual bool is_remote() const noexcept { return false; }
  // What tells this store from all others, in any process, without secrets; empty: nothing does.
  virtual std::string identity() const { return {}; }
  // The same for keys of caches, also those that processes of this machine share; never empty. A store without an
  // identity has a random one.
  virtual std::string cache_identity() const;
  // Whether objects never change.
  virtual bool is_immutable() const noexcept { return false; }
  // Of its objects.
  virtual ReadShape read_shape() const noexcept { return {}; }
  // Empty if absent (ENOENT, ENOTDIR). Throws Error(io, "io") if it is not a regular file and for any other failure.
  // Keys: '/'-separated, no empty part, no ".", no "..", no NUL, at most Limits::key_bytes and key_components (Error
  // inval).
  virtual std::shared_ptr<Object> open(std::string_view key) = 0;
  // The stamp the object has now; empty: absent.
  virtual std::optional<Stamp> stamp(std::string_view key) = 0;
  // The object will be opened and read soon: a remote store may ask for it and for those bytes now, and keep them until
  // unexpect() was called for as many reads as were announced. Waits for nothing, reports nothing.
  virtual void expect(std::string_view key, const Expectation& read) {
    static_cast<void>(key), static_cast<void>(read);
  }
  // A read that expect() announced has ended: after the last one the bytes are dropped. If none was announced, the
  // object will not be opened, and what was not sent is not sent. Does not wait for the server.
  virtual void unexpect(std::string_view key) noexcept { static_cast<void>(key); }
  // WholeObject::id of the key's object; null: it is a part of none. Asks nothing.
  virtual const void* whole_id(std::string_view key) const {
    static_cast<void>(key);
    return nullptr;
  }
  // Whether expect() asks, so that a later open() waits no longer than until the answer is there.
  virtual bool can_expect() const noexcept { return false; }
  // Names directly below `prefix` ("" is the root), sorted; empty when there is no such directory.
  virtual std::vector<Entry> list(std::string_view prefix) = 0;

 private:
  const std::uint64_t number_ = next_number();
  static std::uint64_t next_number() noexcept;
};

// Throws Error(inval) unless `key` is a key as above.
void check_key(std::string_view key);

// A directory of the file system. Keeps at most `max_open` objects open for reuse; an object reused was stamped anew.
std::shared_ptr<Store> make_file_store(std::string root, std::size_t max_open);

// One common limit for several stores, which share their open objects.
class OpenFiles;
std::shared_ptr<OpenFiles> make_open_files(std::size_t max_open);
void close_unused(OpenFiles& files) noexcept;  // forgets all objects; those that others hold stay open
std::shared_ptr<Store> make_file_store(std::string root, std::shared_ptr<OpenFiles> files);

// The scheme of an uri in lower case; empty: a path.
[[nodiscard]] std::string scheme_of_uri(std::string_view uri);
// Throws Error(inval, "uri"): empty, NUL, too long.
void check_uri_text(std::string_view uri);
// An uri of the file system: a path taken literally, or file:///path percent-decoded once. Gives the path.
// Throws Error(inval, "uri"): as check_uri_text(), or another scheme. For all uris: store_of_uri() in mounts.h.
[[nodiscard]] std::string path_of_uri(std::string_view uri);
// Whether an uri means another path when the working directory is another.
[[nodiscard]] bool is_relative_path(std::string_view uri);
// Makes a relative path absolute with the current working directory; unchanged if that directory no longer exists.
[[nodiscard]] std::string absolute_path(const std::string& path);

}  // namespace damacy
