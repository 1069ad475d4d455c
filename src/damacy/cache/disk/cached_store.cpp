#include "damacy/cache/disk/cached_store.h"

#include <cstring>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "damacy/cache/disk/record_name.h"
#include "damacy/core/coalesce.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/core/sha256.h"

namespace damacy {
namespace {

constexpr std::size_t kKnownObjects = 16'384;  // of an immutable store
constexpr std::size_t kMostVersion = 4096;     // bytes

ChunkKey key_of(std::string_view text) noexcept {
  const Sha256 digest = sha256(text);
  ChunkKey key;
  std::memcpy(key.words.data(), digest.data(), sizeof key.words);
  return key;
}

// Has the size in front, which belongs to it.
struct Version {
  std::uint64_t size = 0;
  std::string text;

  std::string packed() const { return formatted("{}\n{}", size, text); }
  static std::optional<Version> unpacked(std::string_view packed) {
    Version version;
    std::size_t at = 0;
    for (; at < packed.size() && packed[at] >= '0' && packed[at] <= '9' && at < 20; ++at)
      version.size = version.size * 10 + static_cast<std::uint64_t>(packed[at] - '0');
    if (at == 0 || at == packed.size() || packed[at] != '\n' || at + 1 == packed.size()) return std::nullopt;
    version.text = packed.substr(at + 1);
    return version;
  }
};

struct Shared {
  std::shared_ptr<Store> remote;
  std::shared_ptr<DiskTier> tier;
  std::string identity;
};

// What a piece is hashed by, as it lies in memory.
struct PieceName {
  Sha256 object;
  StoredPiece piece;
};
static_assert(std::has_unique_object_representations_v<PieceName>);

class CachedObject final : public Object {
 public:
  // Without `remote`, which only an immutable store may do, the object is opened when it is needed.
  CachedObject(std::shared_ptr<const Shared> shared, std::string key, const Version& version,
               std::shared_ptr<Object> remote)
      : shared_(std::move(shared)),
        key_(std::move(key)),
        version_(version.text),
        record_name_(record_name(shared_->remote->name(), key_)),
        name_(sha256(formatted("{}/{}\0{}", shared_->identity, key_, version.packed()))),
        remote_(std::move(remote)) {
    std::memcpy(&stamp_.device, name_.data(), sizeof stamp_.device);
    std::memcpy(&stamp_.inode, name_.data() + sizeof stamp_.device, sizeof stamp_.inode);
    stamp_.size = version.size;
    // An object without a version is handed out bare until it has one. Its stamp must not differ then: it is the
    // object's own. An object that never changes may be opened without its remote one, and always has a version.
    if (!shared_->remote->is_immutable()) stamp_ = remote_->stamp();
  }

  const Stamp& stamp() const noexcept override { return stamp_; }
  std::string version() const override { return version_; }

  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override { remote()->read_exact(offset, dst); }

  ReadShape read_shape() const noexcept override { return shared_->remote->read_shape(); }
  // One that was not opened yet is read by itself: opening may wait.
  std::optional<WholeObject> whole() const override {
    const auto opened = opened_remote();
    return opened ? opened->whole() : std::nullopt;
  }
  Error as_of_part(const Error& error) const override {
    const auto opened = opened_remote();
    return opened ? opened->as_of_part(error) : error;
  }
  HeldBytes held(std::uint64_t offset, std::uint64_t bytes) override {
    const auto opened = opened_remote();
    return opened ? opened->held(offset, bytes) : HeldBytes();
  }
  bool can_start_reads() const noexcept override { return true; }
  std::unique_ptr<StartedRead> start_read(std::uint64_t offset, std::span<std::byte> dst,
                                          std::function<void()> landed) override {
    return remote()->start_read(offset, dst, std::move(landed));
  }

  Nearness nearness(const StoredPiece& piece) noexcept override {
    if (shared_->tier->find(key_of_piece(piece), piece.bytes)) return Nearness::near;
    return shared_->tier->has_room_for(piece.bytes) ? Nearness::wanted : Nearness::far;
  }

  void read_pieces(std::uint64_t offset, std::span<std::byte> dst, std::span<const StoredPiece> pieces) override {
    std::vector<DiskTier::Wanted> wanted;
    wanted.reserve(pieces.size());
    for (const StoredPiece& piece : pieces)
      wanted.push_back({key_of_piece(piece), dst.subspan(piece.offset - offset, piece.bytes)});
    shared_->tier->read(wanted);
    std::vector<Piece> missing;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (!wanted[i].found) missing.push_back({pieces[i].offset, pieces[i].bytes, i});
    for (const MergedRead& merged : coalesce(missing)) {
      remote()->read_exact(merged.offset, dst.subspan(merged.offset - offset, merged.size));
      for (const Piece& piece : std::span(missing).subspan(merged.first, merged.count))
        shared_->tier->keep(wanted[piece.id].key, wanted[piece.id].to, record_name_);
    }
  }

  void keep_piece(std::uint64_t offset, std::span<const std::byte> piece) noexcept override {
    shared_->tier->keep(key_of_piece({offset, piece.size()}), piece, record_name_);
  }

  bool forget_piece(const StoredPiece& piece) noexcept override {
    const auto opened = opened_remote();  // its first bytes may be kept in memory
    const bool was_held = opened && opened->forget_piece(piece);
    return shared_->tier->forget(key_of_piece(piece)) || was_held;
  }

 private:
  ChunkKey key_of_piece(const StoredPiece& piece) const noexcept {
    const PieceName name{name_, piece};
    return key_of({reinterpret_cast<const char*>(&name), sizeof name});
  }

  std::shared_ptr<Object> opened_remote() const {
    const Lock lock(mutex_);
    return remote_;
  }

  std::shared_ptr<Object> remote() {
    if (auto opened = opened_remote()) return opened;
    auto opened = shared_->remote->open(key_);
    if (!opened || opened->version() != version_ || opened->stamp().size != stamp_.size)
      throw Error(Status::io, "the object is not the version that was kept on disk, although it never changes",
                  "changed")
          .at_key(key_)
          .at_store(shared_->remote->name());
    const Lock lock(mutex_);
    if (!remote_) remote_ = std::move(opened);
    return remote_;
  }

  const std::shared_ptr<const Shared> shared_;
  const std::string key_, version_, record_name_;
  const Sha256 name_;  // of the object and its version
  Stamp stamp_;
  mutable Mutex mutex_;
  std::shared_ptr<Object> remote_ DAMACY_GUARDED_BY(mutex_);
};

class CachedStore final : public Store {
 public:
  CachedStore(std::shared_ptr<Store> remote, std::shared_ptr<DiskTier> tier, std::string identity)
      : shared_(std::make_shared<const Shared>(Shared{std::move(remote), std::move(tier), std::move(identity)})),
        is_immutable_(shared_->remote->is_immutable()) {}

  std::string name() const override { return shared_->remote->name(); }
  std::string why_absent() override { return shared_->remote->why_absent(); }
  bool is_remote() const noexcept override { return true; }
  std::string identity() const override { return shared_->identity; }
  bool is_immutable() const noexcept override { return is_immutable_; }
  ReadShape read_shape() const noexcept override { return shared_->remote->read_shape(); }

  std::shared_ptr<Object> open(std::string_view key) override {
    check_key(key);
    if (is_immutable_)
      if (auto object = believed(key)) return object;
    auto remote = shared_->remote->open(key);
    if (!remote) return nullptr;
    const Version version{remote->stamp().size, remote->version()};
    if (version.text.empty()) return remote;
    auto object = std::make_shared<CachedObject>(shared_, std::string(key), version, std::move(remote));
    if (is_immutable_) {
      const std::string packed = version.packed();
      shared_->tier->keep(key_of_version(key), std::as_bytes(std::span(packed)),
                          record_name(shared_->remote->name(), key));
      know(key, object);
    }
    return object;
  }

  std::optional<Stamp> stamp(std::string_view key) override {
    const auto object = open(key);
    if (!object) return std::nullopt;
    return object->stamp();
  }

  const void* whole_id(std::string_view key) const override { return shared_->remote->whole_id(key); }

  // What is immutable is probably known.
  bool can_expect() const noexcept override { return !is_immutable_ && shared_->remote->can_expect(); }
  void expect(std::string_view key, const Expectation& read) override {
    if (!is_immutable_) shared_->remote->expect(key, read);
  }
  void unexpect(std::string_view key) noexcept override { shared_->remote->unexpect(key); }

  std::vector<Entry> list(std::string_view prefix) override { return shared_->remote->list(prefix); }

 private:
  ChunkKey key_of_version(std::string_view key) const {
    return key_of(formatted("{}/{}\0version", shared_->identity, key));
  }

  // The version that was opened before, by any process.
  std::shared_ptr<CachedObject> believed(std::string_view key) {
    {
      const Lock lock(mutex_);
      if (const auto at = known_.find(std::string(key)); at != known_.end()) return at->second;
    }
    std::string packed;
    if (!shared_->tier->read_any(key_of_version(key), kMostVersion, packed)) return nullptr;
    const auto version = Version::unpacked(packed);
    if (!version) return nullptr;
    auto object = std::make_shared<CachedObject>(shared_, std::string(key), *version, nullptr);
    know(key, object);
    return object;
  }

  void know(std::string_view key, const std::shared_ptr<CachedObject>& object) {
    const Lock lock(mutex_);
    if (known_.size() >= kKnownObjects) known_.clear();
    known_.insert_or_assign(std::string(key), object);
  }

  const std::shared_ptr<const Shared> shared_;
  const bool is_immutable_;
  Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<CachedObject>> known_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<Store> make_cached_store(std::shared_ptr<Store> store, std::shared_ptr<DiskTier> tier) {
  if (!store || !tier || !store->is_remote()) return store;
  std::string identity = store->identity();
  if (identity.empty()) return store;
  return std::make_shared<CachedStore>(std::move(store), std::move(tier), std::move(identity));
}

}  // namespace damacy
