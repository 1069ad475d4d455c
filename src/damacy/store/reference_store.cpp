#include "damacy/store/reference_store.h"

#include <cstring>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/mutex.h"
#include "damacy/core/sha256.h"
#include "damacy/store/counted_store.h"
#include "damacy/store/mounts.h"
#include "damacy/store/object_uri.h"
#include "damacy/store/reference_urls.h"
#include "damacy/store/s3/s3_store.h"
#include "damacy/store/started_read.h"
#include "damacy/store/storage_watch.h"

namespace damacy {
namespace {

constexpr std::size_t kOpenFiles = 64;
constexpr std::size_t kStores = 16'384;  // that are kept, of one object each
constexpr int kMostLeads = 8;            // from references to references

bool is_of_files(std::string_view uri) {
  const std::string scheme = scheme_of_uri(uri);
  return scheme.empty() || scheme == "file";
}

ObjectPlace place_of_path(const std::string& path, const std::shared_ptr<OpenFiles>& files) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == path.npos ? "." : path.substr(0, slash + 1);
  return {make_file_store(parent, files), slash == path.npos ? path : path.substr(slash + 1)};
}

// The document, and what follows from it alone.
struct Document {
  std::string name;
  std::string identity;
  References references;
  bool is_remote = false, is_immutable = false, can_expect = false;
};

// The objects that are named, each in a store of its own.
class Targets {
 public:
  Targets(std::shared_ptr<const Document> document, const StoreUse& use) : document_(std::move(document)), use_(use) {}

  ObjectPlace find(std::size_t url, bool is_whole) {
    const std::size_t id = 2 * url + (is_whole ? 1 : 0);
    {
      const Lock lock(mutex_);
      if (const auto at = places_.find(id); at != places_.end()) return at->second;
    }
    ObjectPlace made = make(document_->references.urls()[url], is_whole);
    const Lock lock(mutex_);
    if (places_.size() >= kStores) places_.clear();
    return places_.try_emplace(id, std::move(made)).first->second;
  }
  void forget(std::size_t url, bool is_whole) {
    const Lock lock(mutex_);
    places_.erase(2 * url + (is_whole ? 1 : 0));
  }

 private:
  ObjectPlace make(const std::string& url, bool is_whole) {
    if (is_of_files(url)) return place_of_path(path_of_uri(url), files_);
    StoreUse use = use_;
    if (!is_whole) use.head_bytes = 1;  // the first answer says what the object is; its first bytes are rarely wanted
    return object_of_uri(url, {}, use);
  }

  const std::shared_ptr<const Document> document_;
  const StoreUse use_;
  const std::shared_ptr<OpenFiles> files_ = make_open_files(kOpenFiles);
  Mutex mutex_;
  std::unordered_map<std::size_t, ObjectPlace> places_ DAMACY_GUARDED_BY(mutex_);
};

// Where a reference is for errors, and what it names.
struct Lead {
  std::string store, key, url;

  Error located(const Error& e) const {
    return Error(e).moved_to(store, key).with_note(formatted("the reference names {}", url));
  }
};

void check_end(const Lead& lead, std::uint64_t size, std::uint64_t offset, std::size_t bytes) {
  const std::uint64_t left = offset < size ? size - offset : 0;
  if (left < bytes)
    throw Error(Status::io, formatted("short read: {} of {} bytes", left, bytes), "short-read")
        .at_bytes(offset, offset + bytes)
        .at_key(lead.key)
        .at_store(lead.store);
}

// Bytes of the document.
class DataObject final : public Object {
 public:
  DataObject(std::shared_ptr<const Document> document, std::string key, std::string_view data)
      : document_(std::move(document)), lead_{document_->name, std::move(key), {}}, data_(data) {
    const Sha256 digest = sha256(data);
    std::memcpy(&stamp_.device, digest.data(), sizeof stamp_.device);
    std::memcpy(&stamp_.inode, digest.data() + sizeof stamp_.device, sizeof stamp_.inode);
    stamp_.size = data.size();
  }
  const Stamp& stamp() const noexcept override { return stamp_; }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    check_end(lead_, data_.size(), offset, dst.size());
    if (!dst.empty()) std::memcpy(dst.data(), data_.data() + offset, dst.size());
  }

 private:
  const std::shared_ptr<const Document> document_;
  const Lead lead_;
  const std::string_view data_;
  Stamp stamp_;
};

// A range of an object. `id`: of the object, in the document.
class RangeObject final : public Object {
 public:
  RangeObject(Lead lead, std::shared_ptr<Object> whole, const References::Range& range, std::shared_ptr<const void> id)
      : lead_(std::move(lead)),
        whole_(std::move(whole)),
        id_(std::move(id)),
        offset_(range.offset),
        stamp_(whole_->stamp()) {
    stamp_.size = range.bytes;
  }
  const Stamp& stamp() const noexcept override { return stamp_; }
  std::string version() const override {
    const std::string version = whole_->version();
    if (version.empty()) return version;
    return formatted("{}\n{}+{}\n{}", lead_.url, offset_, stamp_.size, version);
  }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    check_end(lead_, stamp_.size, offset, dst.size());
    try {
      whole_->read_exact(offset_ + offset, dst);
    } catch (const Error& e) {
      throw lead_.located(e);
    }
  }
  ReadShape read_shape() const noexcept override { return whole_->read_shape(); }
  std::optional<WholeObject> whole() const override { return WholeObject{whole_, offset_, id_.get()}; }
  Error as_of_part(const Error& error) const override { return lead_.located(error); }
  bool forget_piece(const StoredPiece& piece) noexcept override {
    return whole_->forget_piece({offset_ + piece.offset, piece.bytes});
  }
  bool can_start_reads() const noexcept override { return whole_->can_start_reads(); }
  std::unique_ptr<StartedRead> start_read(std::uint64_t offset, std::span<std::byte> dst,
                                          std::function<void()> landed) override {
    if (offset > stamp_.size || dst.size() > stamp_.size - offset)  // its end says why
      return Object::start_read(offset, dst, std::move(landed));
    return finished_in(whole_->start_read(offset_ + offset, dst, std::move(landed)),
                       [lead = lead_](const auto& finish) {
                         try {
                           finish();
                         } catch (const Error& e) {
                           throw lead.located(e);
                         }
                       });
  }

 private:
  const Lead lead_;
  const std::shared_ptr<Object> whole_;
  const std::shared_ptr<const void> id_;
  const std::uint64_t offset_;
  Stamp stamp_;
};

// References may lead to a store of references, even to the same one.
class LeadCount {
 public:
  explicit LeadCount(const Lead& lead) {
    if (count_ >= kMostLeads) {
      was_exceeded_ = true;
      throw Error(Status::io, formatted("references lead to references more than {} times", kMostLeads), "io")
          .at_key(lead.key)
          .at_store(lead.store);
    }
    ++count_;
  }
  ~LeadCount() {
    if (--count_ == 0) was_exceeded_ = false;
  }
  LeadCount(const LeadCount&) = delete;
  LeadCount& operator=(const LeadCount&) = delete;

  // Since the outermost one.
  static bool was_exceeded() noexcept { return was_exceeded_; }

 private:
  static thread_local int count_;
  static thread_local bool was_exceeded_;
};
thread_local int LeadCount::count_ = 0;
thread_local bool LeadCount::was_exceeded_ = false;

class ReferenceStore final : public CountedStore {
  template <class Call>
  auto follow(const Lead& lead, const References::Reference& found, Call call) {
    const LeadCount count(lead);
    try {
      return call(targets_.get().find(found.url, !found.range));
    } catch (const Error& e) {
      if (LeadCount::was_exceeded())
        targets_.get().forget(found.url, !found.range);  // it may lead here, and own this store
      throw lead.located(e);
    }
  }

 public:
  ReferenceStore(std::shared_ptr<const Document> document, const StoreUse& use)
      : document_(std::move(document)), targets_(document_, use) {}

  std::string name() const override { return document_->name; }
  bool is_remote() const noexcept override { return document_->is_remote; }
  std::string identity() const override { return document_->identity; }
  bool is_immutable() const noexcept override { return document_->is_immutable; }

  std::shared_ptr<Object> open(std::string_view key) override {
    check_key(key);
    const auto found = find(key);
    if (!found) return nullptr;
    if (found->data) return std::make_shared<DataObject>(document_, std::string(key), *found->data);
    Lead lead = lead_of(key, *found);
    std::shared_ptr<Object> whole = follow(lead, *found, [](const ObjectPlace& at) { return at.store->open(at.key); });
    if (!whole) throw absent(lead);
    const std::uint64_t size = whole->stamp().size;
    const References::Range range = found->range.value_or(References::Range{0, size});
    check_range(lead, size, range);
    const std::string* const url = &document_->references.urls()[found->url];
    return std::make_shared<RangeObject>(std::move(lead), std::move(whole), range,
                                         std::shared_ptr<const void>(document_, url));
  }

  std::optional<Stamp> stamp(std::string_view key) override {
    check_key(key);
    const auto found = find(key);
    if (!found) return std::nullopt;
    if (found->data) return DataObject(document_, std::string(key), *found->data).stamp();
    const Lead lead = lead_of(key, *found);
    auto stamp = follow(lead, *found, [](const ObjectPlace& at) { return at.store->stamp(at.key); });
    if (!stamp) throw absent(lead);
    if (found->range) stamp->size = found->range->bytes;
    return stamp;
  }

  const void* whole_id(std::string_view key) const override {
    const auto found = document_->references.find(key);
    return found && !found->data ? &document_->references.urls()[found->url] : nullptr;
  }
  bool can_expect() const noexcept override { return document_->can_expect; }
  void expect(std::string_view key, const Expectation& read) override {
    const auto found = document_->references.find(key);
    if (!found || found->data) return;
    static_cast<void>(failure_of([&] {
      const LeadCount count(lead_of(key, *found));
      const ObjectPlace at = targets_.get().find(found->url, !found->range);
      at.store->expect(at.key, found->range ? Expectation() : read);
    }));
  }
  void unexpect(std::string_view key) noexcept override {
    static_cast<void>(failure_of([&] {
      const auto found = document_->references.find(key);
      if (!found || found->data || found->range) return;
      const ObjectPlace at = targets_.get().find(found->url, /*is_whole=*/true);
      at.store->unexpect(at.key);
    }));
  }

  std::vector<Entry> list(std::string_view prefix) override {
    if (!prefix.empty()) check_key(prefix);
    return document_->references.list(prefix);
  }

  // The same references with requests that are counted; those of one owner share what is known of the objects.
  std::shared_ptr<Store> for_use(const StoreUse& use) override {
    if (!use.counts) return nullptr;
    Made& last = made_.get();
    const Lock lock(last.mutex);
    if (auto made = last.store.lock(); made && last.counts == use.counts) return made;
    auto made = std::make_shared<ReferenceStore>(document_, StoreUse{.counts = use.counts});
    last.store = made;
    last.counts = use.counts;
    return made;
  }

 private:
  // The last one for a use, and whose it is.
  struct Made {
    Mutex mutex;
    std::weak_ptr<ReferenceStore> store DAMACY_GUARDED_BY(mutex);
    std::shared_ptr<NetworkCounts> counts DAMACY_GUARDED_BY(mutex);
  };

  std::optional<References::Reference> find(std::string_view key) const {
    auto found = document_->references.find(key);
    if (!found && document_->references.has_below(key))
      throw Error(Status::io, "not a regular file but a directory", "io").at_key(key).at_store(document_->name);
    return found;
  }

  Lead lead_of(std::string_view key, const References::Reference& found) const {
    return {document_->name, std::string(key), without_secrets(document_->references.urls()[found.url])};
  }

  static Error absent(const Lead& lead) {
    return Error(Status::io, formatted("the reference names {}, which does not exist", lead.url), "io")
        .at_key(lead.key)
        .at_store(lead.store);
  }

  static void check_range(const Lead& lead, std::uint64_t size, const References::Range& range) {
    if (range.offset <= size && range.bytes <= size - range.offset) return;
    throw Error(Status::io,
                formatted("the reference names bytes {} to {} of {}, which has {} bytes", range.offset,
                          range.offset + range.bytes, lead.url, size),
                "short-read")
        .at_key(lead.key)
        .at_store(lead.store);
  }

  const std::shared_ptr<const Document> document_;
  PerProcess<Targets, std::shared_ptr<const Document>, StoreUse> targets_;
  PerProcess<Made> made_;
};

[[noreturn]] void refuse_parquet() {
  throw Error::unsupported(
      "references in Parquet are read through zarr-python: mount zarr.storage.FsspecStore of a ReferenceFileSystem; "
      "JSON of version 1 is read natively",
      "references");
}

std::string read_document(std::string_view uri) {
  const std::string plain = without_secrets(uri);
  if (plain.ends_with(".parq") || plain.ends_with(".parquet")) refuse_parquet();
  ObjectPlace at;
  if (is_of_files(uri)) {
    const std::string path = path_of_uri(uri);
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) refuse_parquet();
    at = place_of_path(path, make_open_files(1));
  } else {
    at = object_of_uri(uri, {}, {});
  }
  const auto object = make_watched_store(at.store)->open(at.key);
  if (!object) throw Error(Status::notfound, "there is no such document of references", "no-object");
  const std::uint64_t size = object->stamp().size;
  if (size > Limits::group_document_bytes)
    throw Error(Status::inval,
                formatted("larger than the limit: {} bytes, limit {}", size, Limits::group_document_bytes), "limit");
  std::string document(size, '\0');
  object->read_exact(0, std::as_writable_bytes(std::span(document)));
  if (document.starts_with("PAR1")) refuse_parquet();
  return document;
}

std::shared_ptr<Store> make_store(std::string name, std::string identity, References references) {
  auto document = std::make_shared<Document>(Document{std::move(name), std::move(identity), std::move(references)});
  const auto urls = document->references.urls();
  document->is_immutable = document->can_expect = !urls.empty();
  for (const std::string& url : urls) {
    if (is_of_files(url)) {
      document->is_immutable = document->can_expect = false;
      continue;
    }
    document->is_remote = true;
    const auto options = mounted_options_of_uri(without_secrets(url));
    document->is_immutable &= options && options->immutable;
    document->can_expect &= options || scheme_of_uri(url).starts_with("http") || s3::is_bucket_uri(url);
  }
  return std::make_shared<ReferenceStore>(std::move(document), StoreUse());
}

}  // namespace

std::shared_ptr<Store> make_reference_store(std::string name, References references) {
  return make_store(std::move(name), {}, std::move(references));
}

std::shared_ptr<Store> make_reference_store(std::string_view uri, std::span<const std::string> allow) {
  try {
    const ReferenceUrls urls(uri, allow);
    const std::string document = read_document(uri);
    References references = References::parse(document);
    references.resolve_urls([&urls](const std::string& url) { return urls.resolve(url); });
    const std::string shown = without_secrets(uri);
    return make_store(formatted("references {}", shown), formatted("references\n{}\n{}", shown, hex(sha256(document))),
                      std::move(references));
  } catch (const Error& e) {
    throw Error(e).at_uri(without_secrets(uri));
  }
}

}  // namespace damacy
