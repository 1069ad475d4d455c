#include "damacy/store/mounts.h"

#include <algorithm>
#include <map>

#include <pthread.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/mutex.h"
#include "damacy/store/counted_store.h"
#include "damacy/store/http/http_store.h"
#include "damacy/store/s3/s3_store.h"
#include "damacy/store/started_read.h"

namespace damacy {
namespace {

[[noreturn]] void refuse(std::string_view uri, std::string_view why) {
  throw Error(Status::inval, std::string(why), "uri").at_uri(uri);
}

// The scheme in lower case, then the rest unchanged.
std::string normal(std::string_view uri) {
  return formatted("{}{}", scheme_of_uri(uri), uri.substr(uri.find("://")));
}

std::string checked_prefix(std::string_view prefix) {
  const std::string scheme = scheme_of_uri(prefix);
  if (scheme.empty() || scheme == "file")
    refuse(prefix, "a store is mounted under a prefix such as store://NAME/ or s3://BUCKET/, not under a path");
  if (prefix.size() >= Limits::uri_bytes) refuse(prefix, formatted("is not shorter than {} bytes", Limits::uri_bytes));
  const std::string_view rest = prefix.substr(scheme.size() + 3);
  if (rest.empty() || rest[0] == '/') refuse(prefix, "the prefix has no name after its scheme");
  if (prefix.find('\0') != std::string_view::npos) refuse(prefix, "the prefix holds a NUL");
  if (rest.find_first_of("?#") != std::string_view::npos || rest.substr(0, rest.find('/')).find('@') != rest.npos)
    refuse(prefix, "a prefix has no user info, query or fragment");
  std::string out = normal(prefix);
  if (!out.ends_with('/')) out += '/';
  return out;
}

// Part of another store: what is below a path. Its objects have the keys that they have below the path.
class PartOfStore final : public Store {
  template <class Call>
  auto located(std::string_view key, Call call) {
    try {
      return call();
    } catch (const Error& e) {
      throw Error(e).moved_to(name_, key);
    }
  }

 public:
  PartOfStore(std::string name, std::shared_ptr<Store> whole, std::string path)
      : name_(std::move(name)), whole_(std::move(whole)), path_(std::move(path)) {}

  std::string name() const override { return name_; }
  bool is_remote() const noexcept override { return whole_->is_remote(); }
  std::string identity() const override {
    const std::string whole = whole_->identity();
    return whole.empty() || path_.empty() ? whole : formatted("{}/{}", whole, path_);
  }
  std::string cache_identity() const override { return formatted("{}/{}", whole_->cache_identity(), path_); }
  bool is_immutable() const noexcept override { return whole_->is_immutable(); }
  ReadShape read_shape() const noexcept override { return whole_->read_shape(); }
  std::string why_absent() override { return path_.empty() ? whole_->why_absent() : std::string(); }
  std::shared_ptr<Object> open(std::string_view key) override {
    check_key(key);
    return located(key, [&]() -> std::shared_ptr<Object> {
      auto object = whole_->open(key_of(key));
      if (!object) return nullptr;
      return std::make_shared<PartObject>(*this, std::string(key), std::move(object));
    });
  }
  std::optional<Stamp> stamp(std::string_view key) override {
    check_key(key);
    return located(key, [&] { return whole_->stamp(key_of(key)); });
  }
  const void* whole_id(std::string_view key) const override { return whole_->whole_id(key_of(key)); }
  bool can_expect() const noexcept override { return whole_->can_expect(); }
  void expect(std::string_view key, const Expectation& read) override { whole_->expect(key_of(key), read); }
  void unexpect(std::string_view key) noexcept override {
    static_cast<void>(failure_of([&] { whole_->unexpect(key_of(key)); }));
  }
  std::vector<Entry> list(std::string_view prefix) override {
    if (!prefix.empty()) check_key(prefix);
    return located(prefix, [&] { return whole_->list(prefix.empty() ? path_ : key_of(prefix)); });
  }

 private:
  class PartObject final : public Object {
   public:
    PartObject(const PartOfStore& part, std::string key, std::shared_ptr<Object> object)
        : store_(part.name_), key_(std::move(key)), object_(std::move(object)) {}
    const Stamp& stamp() const noexcept override { return object_->stamp(); }
    void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
      try {
        object_->read_exact(offset, dst);
      } catch (const Error& e) {
        throw Error(e).moved_to(store_, key_);
      }
    }
    std::string version() const override { return object_->version(); }
    ReadShape read_shape() const noexcept override { return object_->read_shape(); }
    std::optional<WholeObject> whole() const override { return object_->whole(); }
    Error as_of_part(const Error& error) const override {
      return Error(object_->as_of_part(error)).moved_to(store_, key_);
    }
    HeldBytes held(std::uint64_t offset, std::uint64_t bytes) override { return object_->held(offset, bytes); }
    bool forget_piece(const StoredPiece& piece) noexcept override { return object_->forget_piece(piece); }
    bool can_start_reads() const noexcept override { return object_->can_start_reads(); }
    std::unique_ptr<StartedRead> start_read(std::uint64_t offset, std::span<std::byte> dst,
                                            std::function<void()> landed) override {
      return finished_in(object_->start_read(offset, dst, std::move(landed)),
                         [store = store_, key = key_](const auto& finish) {
                           try {
                             finish();
                           } catch (const Error& e) {
                             throw Error(e).moved_to(store, key);
                           }
                         });
    }

   private:
    const std::string store_, key_;
    const std::shared_ptr<Object> object_;
  };

  std::string key_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : formatted("{}/{}", path_, key);
  }

  const std::string name_;
  const std::shared_ptr<Store> whole_;
  const std::string path_;
};

// Options for the uris below a prefix. It is a store, too: the one at the prefix.
class OptionsStore final : public Store {
 public:
  using StoreOf = std::function<std::shared_ptr<Store>(std::string_view uri, const StoreUse& use)>;

  // `other_root`: in place of the prefix in uris; empty: they are uris of the server.
  OptionsStore(std::string prefix, std::string other_root, const StoreOptions& options, StoreOf store_of)
      : options_(options),
        other_root_(std::move(other_root)),
        name_(masked_text(options)),
        store_of_(std::move(store_of)),
        root_(store_of_(other_root_.empty() ? prefix : other_root_, {})) {}

  std::shared_ptr<Store> store_of(const MountedUri& place, const StoreUse& use) const {
    return store_of_(other_root_.empty() ? place.uri : other_root_ + place.path, use);
  }

  const StoreOptions& options() const { return options_; }
  std::string name() const override { return name_; }
  bool is_remote() const noexcept override { return true; }
  std::shared_ptr<Object> open(std::string_view key) override { return root_->open(key); }
  std::optional<Stamp> stamp(std::string_view key) override { return root_->stamp(key); }
  bool can_expect() const noexcept override { return root_->can_expect(); }
  void expect(std::string_view key, const Expectation& read) override { root_->expect(key, read); }
  void unexpect(std::string_view key) noexcept override { root_->unexpect(key); }
  std::vector<Entry> list(std::string_view prefix) override { return root_->list(prefix); }

 private:
  const StoreOptions options_;
  const std::string other_root_;
  const std::string name_;
  const StoreOf store_of_;
  const std::shared_ptr<Store> root_;
};

class Mounts {
 public:
  void put(std::string prefix, std::shared_ptr<Store> store) {
    const Lock lock(mutex_);
    std::swap(stores_[std::move(prefix)], store);
  }  // `store` is now the former one; it ends after the lock

  bool remove(const std::string& prefix) {
    std::shared_ptr<Store> former;
    const Lock lock(mutex_);
    const auto at = stores_.find(prefix);
    if (at == stores_.end()) return false;
    former = std::move(at->second);
    stores_.erase(at);
    return true;
  }

  std::vector<std::pair<std::string, std::shared_ptr<Store>>> all() {
    const Lock lock(mutex_);
    return {stores_.begin(), stores_.end()};
  }

  // A child inherits the table: no other thread may be in it at a fork.
  void before_fork() DAMACY_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  void after_fork() DAMACY_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }

  // Of `uri` with a normal scheme: the store of the longest prefix, and what follows that prefix.
  std::optional<MountedUri> find(const std::string& uri) {
    const std::string closed = uri.ends_with('/') ? uri : uri + '/';
    const Lock lock(mutex_);
    for (std::size_t end = closed.rfind('/'); end != std::string::npos && end > 0; end = closed.rfind('/', end - 1))
      if (const auto at = stores_.find(closed.substr(0, end + 1)); at != stores_.end())
        return MountedUri{uri, at->second, end + 1 >= uri.size() ? std::string() : uri.substr(end + 1)};
    return std::nullopt;
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Store>> stores_ DAMACY_GUARDED_BY(mutex_);
};

Mounts& the_mounts() {
  static auto& table = *new Mounts;  // never destroyed: threads may look up uris while the process ends
  static const int registered =
      ::pthread_atfork([] { table.before_fork(); }, [] { table.after_fork(); }, [] { table.after_fork(); });
  static_cast<void>(registered);
  return table;
}

// Python that mounts a store of obstore for the uri; empty for schemes that obstore has no store for.
std::string how_to_mount(std::string_view scheme, std::string_view uri) {
  const std::string_view rest = uri.substr(uri.find("://") + 3);
  std::string name(rest.substr(0, rest.find_first_of("/?#")));
  name.erase(0, name.rfind('@') + 1);  // user info is secret
  const std::string root = formatted("{}://{}", scheme, name);
  const auto lines = [&](std::string_view type, std::string_view made) {
    return formatted("from obstore.store import {}; damacy.mount(\"{}/\", {})", type, root, made);
  };
  if (scheme == "az") return lines("AzureStore", formatted("AzureStore(\"{}\")", name));
  return {};
}

[[noreturn]] void refuse_unmounted(std::string_view scheme, const std::string& uri) {
  if (scheme == "store") {
    const std::size_t end = uri.find('/', scheme.size() + 3);
    refuse(uri, formatted("no store is mounted as {}/ in this process: use damacy.mount", uri.substr(0, end)));
  }
  const std::string lines = how_to_mount(scheme, uri);
  if (!lines.empty())
    refuse(uri, formatted("damacy does not read {} uris itself: mount a store of obstore for it: {}", scheme, lines));
  refuse(
      uri,
      formatted(
          "the uri has the unsupported scheme {}: use a path, file:///path, http(s)://HOST/PATH, "
          "s3://BUCKET/PATH, gs://BUCKET/PATH, store://NAME/PATH, or a prefix of which a store is mounted with damacy.mount",
          scheme));
}

bool is_http(std::string_view uri) {
  const std::string scheme = scheme_of_uri(uri);
  return scheme == "http" || scheme == "https";
}

}  // namespace

std::string mount(std::string_view prefix, std::shared_ptr<Store> store) {
  std::string checked = checked_prefix(prefix);
  if (!store) refuse(prefix, "there is no store to mount");
  the_mounts().put(checked, std::move(store));
  return checked;
}

namespace {

// Makes stores of the uris below `prefix`.
OptionsStore::StoreOf maker_of(std::string_view prefix, const StoreOptions& options) {
  if (is_http(prefix))
    return [options](std::string_view uri, const StoreUse& use) { return http::make_http_store(uri, options, use); };
  if (s3::is_bucket_uri(prefix))
    return [bucket = s3::S3Mount(prefix, options)](std::string_view uri, const StoreUse& use) {
      return bucket.store_of(uri, use);
    };
  refuse(prefix, "options are mounted under a prefix of http(s)://, s3:// or gs://");
}

}  // namespace

std::string mount(std::string_view prefix, const StoreOptions& options) {
  const std::string checked = checked_prefix(prefix);
  return mount(checked, std::make_shared<OptionsStore>(checked, "", options, maker_of(checked, options)));
}

std::string mount(std::string_view prefix, std::string_view root, const StoreOptions& options) {
  const std::string checked = checked_prefix(prefix), checked_root = checked_prefix(root);
  auto maker = maker_of(checked_root, options);
  return mount(checked, std::make_shared<OptionsStore>(checked, checked_root, options, std::move(maker)));
}

std::shared_ptr<Store> store_with_options(std::string_view uri, const StoreOptions& options) {
  return maker_of(uri, options)(uri, {});
}

void unmount(std::string_view prefix) {
  const std::string checked = checked_prefix(prefix);
  if (!the_mounts().remove(checked)) refuse(prefix, formatted("no store is mounted as {} in this process", checked));
}

std::vector<std::pair<std::string, std::shared_ptr<Store>>> mounts() {
  return the_mounts().all();
}

std::optional<std::string> file_path_of_uri(std::string_view uri) {
  const std::string scheme = scheme_of_uri(uri);
  if (scheme.empty() || scheme == "file") return path_of_uri(uri);
  check_uri_text(uri);
  return std::nullopt;
}

MountedUri find_mount(std::string_view uri) {
  MountedUri place{std::string(uri)};
  if (file_path_of_uri(uri)) return place;
  const std::string wanted = normal(uri);
  auto found = the_mounts().find(wanted);
  if (!found && (is_http(uri) || s3::is_bucket_uri(uri))) return place;
  if (!found) refuse_unmounted(scheme_of_uri(uri), wanted);
  place.mount = std::move(found->mount);
  place.path = std::move(found->path);
  if (dynamic_cast<const OptionsStore*>(place.mount.get()) != nullptr) return place;
  while (place.path.ends_with('/')) place.path.pop_back();
  if (!place.path.empty()) {
    try {
      check_key(place.path);
    } catch (const Error& e) {
      refuse(uri, formatted("the path below the mounted store is {}", e.message()));
    }
  }
  return place;
}

std::shared_ptr<Store> mounted_store(const MountedUri& place, const StoreUse& use) {
  if (!place.mount && is_http(place.uri)) return http::make_http_store(place.uri, StoreOptions(), use);
  if (!place.mount) return s3::make_s3_store(place.uri, use);
  if (const auto* const options = dynamic_cast<const OptionsStore*>(place.mount.get()))
    return options->store_of(place, use);
  std::shared_ptr<Store> store;
  if (auto* const counted = dynamic_cast<CountedStore*>(place.mount.get())) store = counted->for_use(use);
  return std::make_shared<PartOfStore>(place.uri, store ? std::move(store) : place.mount, place.path);
}

std::shared_ptr<Store> mounted_store_of_uri(std::string_view uri, const StoreUse& use) {
  return mounted_store(find_mount(uri), use);
}

std::optional<StoreOptions> mounted_options_of_uri(std::string_view uri) {
  if (scheme_of_uri(uri).empty()) return std::nullopt;
  const auto found = the_mounts().find(normal(uri));
  const auto* const options = found ? dynamic_cast<const OptionsStore*>(found->mount.get()) : nullptr;
  return options != nullptr ? std::optional(options->options()) : std::nullopt;
}

std::shared_ptr<Store> store_of_uri(std::string_view uri, const OpenDirectory& open_directory) {
  if (const auto path = file_path_of_uri(uri)) return open_directory(*path);
  return mounted_store_of_uri(uri);
}

std::shared_ptr<Store> store_of_uri(std::string_view uri) {
  return store_of_uri(uri, [](const std::string& path) { return make_file_store(path, 1); });
}

std::shared_ptr<Store> store_of(const MountedUri& place) {
  if (const auto path = file_path_of_uri(place.uri)) return make_file_store(*path, 1);
  return mounted_store(place);
}

}  // namespace damacy
