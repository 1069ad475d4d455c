#include "damacy/zarr/catalog.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "damacy/cache/disk/cached_store.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/store/mounts.h"
#include "damacy/store/storage_watch.h"
#include "damacy/zarr/detail/metadata_cache.h"
#include "damacy/zarr/detail/opening.h"
#include "damacy/zarr/detail/shard_reader.h"

namespace damacy {
namespace {

std::uint64_t bytes_of(const Array& array) {
  std::uint64_t bytes = kEntryOverhead + sizeof(KeptArray) + sizeof(Array) + 2 * array.uri().size() +
                        array.document_key().size() + array.path().size() + array.metadata().packed_by.size();
  for (const auto& name : array.metadata().codec_names) bytes += sizeof name + name.size();
  for (const auto& level : array.levels()) bytes += sizeof level + level.size();
  bytes += array.metadata().shards.size() * sizeof(ShardLevel);
  return bytes + array.metadata().codecs.codecs().size() * sizeof(CodecSpec);
}

Error changed(std::string_view key) {
  return Error(Status::io, "the object is not the version that was opened", "changed").at_key(key);
}

// One uri may be opened in several stores. An entry holds its store, so that no other one has the same address.
std::string array_name(const std::string& uri, const Store& store) {
  return formatted("{}\0{}", absolute_path(uri), reinterpret_cast<std::uintptr_t>(&store));
}

std::string index_name(const Array& array, std::string_view key) {
  return formatted("{} {} {}", array.id()[0], array.id()[1], key);
}

template <class Work>
auto located(const Array& array, std::string_view key, Work work) {
  try {
    return work();
  } catch (Error& e) {
    throw e.at_key(key).at_uri(array.uri()).at_store(array.store()->name());
  }
}

std::shared_ptr<const Array> handed_out(ArrayEntry entry) {
  const Array* const array = entry->array.get();
  return {std::move(entry), array};
}

// The index is shared with the cache, which sees from the reference count that it is in use.
std::shared_ptr<const Shard> handed_out(std::string key, std::shared_ptr<Object> object, IndexEntry entry,
                                        const ShardIndex& index) {
  struct Held {
    Shard shard;
    IndexEntry entry;
  };
  auto held = std::make_shared<Held>();
  held->shard = {std::move(key), entry->read.decoded, index};
  if (!held->shard.object) held->shard.object = std::move(object);
  held->entry = std::move(entry);
  const Shard* const shard = &held->shard;
  return {std::move(held), shard};
}

// Empty: the store does not list. An array's directory has its document at least.
std::optional<std::vector<Entry>> entries_of(Store& store, std::string_view path) {
  if (!store.is_remote()) return store.list(path);
  try {
    auto entries = store.list(path);
    return entries.empty() ? std::nullopt : std::optional(std::move(entries));
  } catch (const Error& e) {
    if (e.where().reason != "denied") throw;
    return std::nullopt;
  }
}

// Of the chunk "path/1.2.3": "path/1/2/3".
std::string nested_key(std::string_view path, std::string_view key) {
  std::string nested(key);
  std::replace(nested.begin() + static_cast<std::ptrdiff_t>(path.size()), nested.end(), '.', '/');
  return nested;
}

}  // namespace

struct Catalog::Impl {
  using Claim = MetadataCache::Claim;

  Impl(const Limits& limits_of, MakeStore make, std::shared_ptr<DiskTier> disk)
      : limits(limits_of),
        files(make ? nullptr : make_open_files(limits.open_files)),
        make_store(std::move(make)),
        tier(std::move(disk)) {}

  // The store of a uri that was opened once. A uri keeps the mount of then, also when its array is no longer cached.
  struct KnownStore {
    std::weak_ptr<Store> store;       // as handed out
    std::optional<MountedUri> place;  // empty: a directory
  };
  static constexpr std::uint64_t kKnownUris = 16'384;  // at least so many are kept

  std::shared_ptr<Store> store_of(const std::string& uri);
  std::shared_ptr<Store> store_of(const MountedUri& place);
  std::shared_ptr<Store> known_store(const std::string& name, const std::string& uri, const MountedUri* place);
  void forget_unused() DAMACY_REQUIRES(stores_mutex);
  std::shared_ptr<const Array> array(const std::string& uri, const std::shared_ptr<Store>& store);
  bool may_be_remote(const std::string& uri) const {
    const std::string scheme = scheme_of_uri(uri);
    return !files || (!scheme.empty() && scheme != "file");
  }
  ArrayEntry load_array(const std::string& uri, const std::shared_ptr<Store>& store);
  IndexEntry load_index(const Array& array, std::size_t level, const ShardPlace& place, const Dims& chunk);
  IndexEntry outermost_index(const Array& array, const std::shared_ptr<Object>& object, const Dims& chunk,
                             const std::string& key);
  IndexEntry index_of(const Array& array, std::size_t level, const ShardPlace& place, const Dims& chunk,
                      const std::string& name);
  void check_documents(const KeptArray& kept, const std::string& name);
  std::shared_ptr<const Shard> shard(const Array& array, const Dims& shard, std::string key);

  const Limits limits;
  const std::shared_ptr<OpenFiles> files;  // of directories; null: make_store opens stores
  const MakeStore make_store;
  const std::shared_ptr<DiskTier> tier;  // null: none
  const std::shared_ptr<NetworkCounts> network = std::make_shared<NetworkCounts>();
  const std::shared_ptr<UsualDocuments> usual = std::make_shared<UsualDocuments>();  // of remote stores
  LargeDocuments large_documents;
  MetadataCache cache{limits};
  Mutex stores_mutex;  // over stores; never held while one is asked for something
  std::unordered_map<std::string, KnownStore> stores DAMACY_GUARDED_BY(stores_mutex);
};

std::shared_ptr<Store> Catalog::Impl::store_of(const std::string& uri) {
  const std::optional<std::string> path = file_path_of_uri(uri);
  return known_store(path ? absolute_path(*path) + '\0' + *path : uri, uri, nullptr);
}

std::shared_ptr<Store> Catalog::Impl::store_of(const MountedUri& place) {
  if (file_path_of_uri(place.uri)) return store_of(place.uri);
  return known_store(formatted("{}\0{}", place.uri, reinterpret_cast<std::uintptr_t>(place.mount.get())), place.uri,
                     &place);
}

// `place`: empty: what is mounted when the uri is opened first.
std::shared_ptr<Store> Catalog::Impl::known_store(const std::string& name, const std::string& uri,
                                                  const MountedUri* place) {
  const Lock lock(stores_mutex);
  const auto found = stores.find(name);
  if (found != stores.end())
    if (auto store = found->second.store.lock()) return store;
  KnownStore known = found != stores.end() ? found->second : KnownStore();
  std::shared_ptr<Store> store;
  if (const auto path = file_path_of_uri(uri)) {
    store = files ? make_file_store(*path, files) : make_store(*path);
  } else {
    if (!known.place) known.place = place != nullptr ? *place : find_mount(uri);
    store = mounted_store(*known.place, {.counts = network});
  }
  store = make_watched_store(make_cached_store(std::move(store), tier));
  known.store = store;
  if (stores.size() > std::max<std::uint64_t>(2 * limits.arrays, kKnownUris)) forget_unused();
  stores.insert_or_assign(name, std::move(known));
  return store;
}

// Those that would be found again as they are.
void Catalog::Impl::forget_unused() {
  std::erase_if(stores, [](const auto& known) {
    const KnownStore& one = known.second;
    if (!one.store.expired()) return false;
    if (!one.place || known.first != one.place->uri) return true;
    bool is_mounted = false;
    static_cast<void>(failure_of([&] { is_mounted = find_mount(one.place->uri).mount == one.place->mount; }));
    return is_mounted;
  });
}

ArrayEntry Catalog::Impl::load_array(const std::string& uri, const std::shared_ptr<Store>& store) {
  FoundArray found;
  auto kept = std::make_shared<KeptArray>();
  kept->array = read_documents(*store, [&] {
    found = damacy::find_array(uri, *store, large_documents);
    return make_array(uri, store, found);
  });
  if (store->is_remote()) usual->note(found.looked_for);
  kept->documents = std::move(found.through);
  kept->documents.push_back({std::move(found.key), found.stamp});
  kept->charge = cache.reserve(bytes_of(*kept->array));
  return kept;
}

IndexEntry Catalog::Impl::load_index(const Array& array, std::size_t level, const ShardPlace& place,
                                     const Dims& chunk) {
  auto kept = std::make_shared<KeptIndex>();
  kept->object = place.object.stamp();
  kept->document = array.document_stamp();
  kept->read = read_shard(array, level, place, chunk,
                          [this](std::uint64_t bytes) { return cache.reserve(kEntryOverhead + bytes); });
  return kept;
}

void Catalog::Impl::check_documents(const KeptArray& kept, const std::string& name) {
  for (const ReadDocument& document : kept.documents)
    if (kept.array->store()->stamp(document.key) != document.stamp) {
      cache.drop_array(name, kept.array.get());
      throw changed(document.key);
    }
}

// For a nested shard: a cached one of another version of the object is no longer in use.
IndexEntry Catalog::Impl::index_of(const Array& array, std::size_t level, const ShardPlace& place, const Dims& chunk,
                                   const std::string& name) {
  Claim claim(cache);
  IndexEntry entry = cache.find_index(name, array, &place.object.stamp(), claim);
  if (entry) return entry;
  entry = load_index(array, level, place, chunk);
  cache.keep(name, entry);
  return entry;
}

IndexEntry Catalog::Impl::outermost_index(const Array& array, const std::shared_ptr<Object>& object, const Dims& chunk,
                                          const std::string& key) {
  const std::string name = index_name(array, key);
  Claim claim(cache);
  IndexEntry entry = cache.find_index(name, array, nullptr, claim);
  if (entry && (!object || object->stamp() != entry->object)) {
    cache.drop_index(name);
    throw changed(key);
  }
  if (entry || !object) return entry;
  entry = load_index(array, 0, {*object, {0, object->stamp().size}}, chunk);
  cache.keep(name, entry);
  return entry;
}

// From the stored object through the shards in it to the one that lists the chunks.
std::shared_ptr<const Shard> Catalog::Impl::shard(const Array& array, const Dims& shard, std::string key) {
  const std::size_t levels = array.metadata().shards.size();
  if (levels == 0) {
    auto object = array.store()->open(key);
    if (!object) return nullptr;
    return std::make_shared<const Shard>(Shard{std::move(key), std::move(object), std::nullopt});
  }
  const Dims chunk = array.first_chunk_of(shard);
  auto object = array.store()->open(key);
  IndexEntry entry = outermost_index(array, object, chunk, key);
  if (!object) return nullptr;
  std::string name = index_name(array, key);
  for (std::size_t level = 1; level < levels; ++level) {
    const std::size_t number = array.entry_at(level - 1, chunk);
    const auto range = entry->read.index.find(number);
    if (!range) return handed_out(std::move(key), std::move(object), std::move(entry), ShardIndex());
    name = formatted("{}\0{}", name, number);
    if (entry->read.decoded) object = entry->read.decoded;
    entry = index_of(array, level, {*object, *range}, chunk, name);
  }
  const ShardIndex index = entry->read.index;
  return handed_out(std::move(key), std::move(object), std::move(entry), index);
}

Catalog::Catalog(const Limits& limits, std::shared_ptr<DiskTier> tier)
    : impl_(std::make_shared<Impl>(limits, nullptr, std::move(tier))) {}

Catalog::Catalog(const Limits& limits, MakeStore make_store, std::shared_ptr<DiskTier> tier)
    : impl_(std::make_shared<Impl>(limits, std::move(make_store), std::move(tier))) {}

std::shared_ptr<const Array> Catalog::Impl::array(const std::string& uri, const std::shared_ptr<Store>& store) {
  try {
    const std::string name = array_name(uri, *store);
    Claim claim(cache);
    ArrayEntry entry = cache.find_array(name, claim);
    if (entry) {
      check_documents(*entry, name);
    } else {
      entry = load_array(uri, store);
      cache.keep(name, entry);
    }
    return handed_out(std::move(entry));
  } catch (Error& e) {
    throw e.at_uri(uri).at_store(store->name());
  }
}

std::shared_ptr<const Array> Catalog::array(const std::string& uri) {
  return impl_->array(uri, impl_->store_of(uri));
}

std::shared_ptr<const Array> Catalog::array(const MountedUri& place) {
  return impl_->array(place.uri, impl_->store_of(place));
}

std::unique_ptr<DocumentsAhead> Catalog::documents_ahead(std::vector<std::string> uris,
                                                         const DocumentsAhead::Wish& wish) {
  const auto may_be_remote = [this](const std::string& uri) { return impl_->may_be_remote(uri); };
  if (std::ranges::none_of(uris, may_be_remote)) return nullptr;
  const std::size_t count = uris.size();
  const auto store_of = [impl = impl_, uris = std::move(uris)](std::size_t number) {
    return impl->may_be_remote(uris[number]) ? impl->store_of(uris[number]) : nullptr;
  };
  return std::make_unique<DocumentsAhead>(count, store_of, impl_->usual, wish);
}

std::shared_ptr<const Shard> Catalog::shard(const Array& array, const Dims& shard) {
  std::string key = array.key_of_shard(shard);
  return located(array, key, [&] { return impl_->shard(array, shard, key); });
}

void Catalog::check_unchanged(const Array& array) {
  located(array, array.document_key(), [&] {
    if (array.store()->stamp(array.document_key()) == array.document_stamp()) return;
    impl_->cache.drop_array(array_name(array.uri(), *array.store()), &array);
    throw changed(array.document_key());
  });
}

void Catalog::check_unchanged(const Array& array, const Shard& shard) {
  located(array, shard.key, [&] {
    if (array.store()->stamp(shard.key) == shard.object->stamp()) return;
    impl_->cache.drop_index(index_name(array, shard.key));
    throw changed(shard.key);
  });
}

void Catalog::check_missing_chunk(const Array& array, std::string_view key) {
  if (!array.metadata().separator_was_absent) return;
  auto& nested = array.nested_chunks();
  if (nested == Array::Nested::unknown) {
    const auto is_index = [](const Entry& entry) {
      return entry.is_directory && entry.name.find_first_not_of("0123456789") == std::string::npos;
    };
    located(array, array.document_key(), [&] {
      const auto entries = entries_of(*array.store(), array.path());
      const bool found = entries ? std::any_of(entries->begin(), entries->end(), is_index)
                                 : array.store()->stamp(nested_key(array.path(), key)).has_value();
      nested = found ? Array::Nested::yes : Array::Nested::no;
    });
  }
  if (nested == Array::Nested::yes)
    throw Error(Status::decode,
                "a chunk is missing and there are nested chunks, but the document names no dimension_separator",
                "dimension-separator")
        .at_pointer("/dimension_separator")
        .at_key(array.document_key())
        .at_uri(array.uri())
        .at_store(array.store()->name());
}

Catalog::Counts Catalog::counts() const {
  return impl_->cache.counts();
}

NetworkCounts::Seen Catalog::network() const {
  return impl_->network->seen();
}

void Catalog::reset_counts() {
  impl_->network->reset();
  impl_->cache.reset_counts();
}

void Catalog::clear() {
  impl_->cache.clear();
  if (impl_->files) close_unused(*impl_->files);
}

}  // namespace damacy
