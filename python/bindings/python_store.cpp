#include "python_store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>

#include <nanobind/stl/shared_ptr.h>
#include <unistd.h>

#include "damacy/cache/chunk_key.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "python_gate.h"
#include "store_answer.h"

namespace damacy::python {
namespace {

using std::chrono::steady_clock;

// Objects of a Python store, asked through an adapter of damacy._stores.adapters.
class PythonStore final : public Store, public std::enable_shared_from_this<PythonStore> {
 public:
  PythonStore(nb::handle adapter, std::string name, double revalidate_s)
      : adapter_(shared_object(adapter)),
        name_(std::move(name)),
        revalidate_(std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(revalidate_s))) {}

  nb::object adapter() const { return nb::borrow(adapter_.get()); }
  std::string name() const override { return name_; }

  std::shared_ptr<Object> open(std::string_view key) override {
    check_key(key);
    const auto answer = ask("open", key, 0, 0, {});
    if (!answer->is_found()) {
      forget(key);
      return nullptr;
    }
    const Stamp stamp = stamp_of(answer->what());
    keep(key, stamp);
    return std::make_shared<PythonObject>(shared_from_this(), std::string(key), stamp, std::move(answer->what().tag),
                                          std::move(answer->head()));
  }

  std::optional<Stamp> stamp(std::string_view key) override {
    check_key(key);
    if (const auto stamp = known(key)) return stamp;
    const auto answer = ask("stamp", key, 0, 0, {});
    if (!answer->is_found()) {
      forget(key);
      return std::nullopt;
    }
    const Stamp stamp = stamp_of(answer->what());
    keep(key, stamp);
    return stamp;
  }

  std::vector<Entry> list(std::string_view prefix) override {
    if (!prefix.empty()) check_key(prefix);
    auto entries = std::move(ask("list", prefix, 0, 0, {})->listed());
    std::ranges::sort(entries, {}, &Entry::name);
    return entries;
  }

 private:
  class PythonObject final : public Object {
   public:
    PythonObject(std::shared_ptr<PythonStore> store, std::string key, const Stamp& stamp, std::string tag,
                 std::vector<std::byte> head)
        : store_(std::move(store)), key_(std::move(key)), stamp_(stamp), tag_(std::move(tag)), head_(std::move(head)) {}

    const Stamp& stamp() const noexcept override { return stamp_; }
    void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
      const std::uint64_t left = offset < stamp_.size ? stamp_.size - offset : 0;
      if (left < dst.size())
        throw at(Error(Status::io, formatted("short read: {} of {} bytes", left, dst.size()), "short-read"), offset,
                 dst.size());
      if (offset < head_.size()) {
        const std::size_t here = std::min<std::size_t>(head_.size() - offset, dst.size());
        std::memcpy(dst.data(), head_.data() + offset, here);
        offset += here;
        dst = dst.subspan(here);
      }
      if (!dst.empty()) ask_for(offset, dst);
    }

   private:
    void ask_for(std::uint64_t offset, std::span<std::byte> dst) {
      try {
        const auto answer = store_->ask("read", key_, offset, dst.size(), {tag_, stamp_.size});
        const auto got = answer->take_bytes(dst);
        if (!got) throw Error(Status::io, "the object was removed while it was read", "changed");
        if (*got != dst.size())
          throw Error(Status::io, formatted("the store returned {} bytes for a range of {}", *got, dst.size()),
                      "range");
      } catch (const Error& error) {
        if (error.where().reason == "changed") store_->forget(key_);
        throw at(error, offset, dst.size());
      }
    }
    Error at(Error error, std::uint64_t offset, std::size_t size) const {
      return error.at_bytes(offset, offset + size).at_key(key_).at_store(store_->name_);
    }

    const std::shared_ptr<PythonStore> store_;
    const std::string key_;
    const Stamp stamp_;
    const std::string tag_;
    const std::vector<std::byte> head_;  // the first bytes, which came with the size
  };

  struct Version {
    std::string_view tag;
    std::uint64_t size = 0;
  };
  struct Known {
    Stamp stamp;
    steady_clock::time_point when;
  };
  struct Versions {
    Mutex mutex;
    std::unordered_map<std::string, Known> of DAMACY_GUARDED_BY(mutex);
  };
  static constexpr std::size_t kKnownObjects = 65'536;
  static constexpr std::uint64_t kNoFile = std::uint64_t{1} << 63;  // no device of a file system has this bit

  std::shared_ptr<StoreAnswer> ask(const char* what, std::string_view key, std::uint64_t offset, std::uint64_t size,
                                   Version version) {
    auto answer = std::make_shared<StoreAnswer>();
    try {
      {
        const InPython inside;
        if (!inside) throw python_ends();
        const NoUnwind stays;
        gate().drop_now();
        try {
          const nb::handle adapter(adapter_.get());
          answer->set_request(adapter.attr("begin")(answer, what, str_of(key), offset, offset + size,
                                                    str_of(version.tag), version.size));
        } catch (nb::python_error& error) {
          const nb::str type(error.type().attr("__name__"));  // its text may hold secrets
          throw Error(Status::io, formatted("the request to the store failed: {}", type.c_str()), "io");
        }
      }
      answer->wait();
    } catch (Error& error) {
      throw error.at_key(key).at_store(name_);
    }
    return answer;
  }

  // Objects of two stores never have the same stamp, also if the stores belong to two processes: caches may be shared.
  // A forked child has a store of its own, whose versions may be counted as its parent's are.
  Stamp stamp_of(const StoreAnswer::Found& found) const {
    return {.device = kNoFile | mixed(number_ + static_cast<std::uint64_t>(::getpid())),
            .inode = std::hash<std::string>()(found.tag),
            .size = found.size,
            .modified_ns = found.modified_ns};
  }

  std::optional<Stamp> known(std::string_view key) {
    Versions& known = known_.get();
    const Lock lock(known.mutex);
    const auto at = known.of.find(std::string(key));
    if (at == known.of.end() || steady_clock::now() - at->second.when >= revalidate_) return std::nullopt;
    return at->second.stamp;
  }
  void keep(std::string_view key, const Stamp& stamp) {
    if (revalidate_ == steady_clock::duration::zero()) return;
    Versions& known = known_.get();
    const Lock lock(known.mutex);
    if (known.of.size() >= kKnownObjects) known.of.clear();
    known.of.insert_or_assign(std::string(key), Known{stamp, steady_clock::now()});
  }
  void forget(std::string_view key) {
    Versions& known = known_.get();
    const Lock lock(known.mutex);
    known.of.erase(std::string(key));
  }

  static std::uint64_t random_number() {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }

  const std::shared_ptr<PyObject> adapter_;
  const std::string name_;
  const steady_clock::duration revalidate_;  // how old the answer to a question for a version may be
  const std::uint64_t number_ = random_number();
  PerProcess<Versions> known_;
};

// A directory that a store of Python stands for.
class DirectoryOfStore final : public Store {
 public:
  DirectoryOfStore(nb::handle adapter, const std::string& root)
      : adapter_(shared_object(adapter)), files_(make_file_store(root, kOpenFiles)) {}

  nb::object adapter() const { return nb::borrow(adapter_.get()); }
  std::string name() const override { return files_->name(); }
  std::string cache_identity() const override { return files_->cache_identity(); }
  std::string why_absent() override { return files_->why_absent(); }
  std::shared_ptr<Object> open(std::string_view key) override { return files_->open(key); }
  std::optional<Stamp> stamp(std::string_view key) override { return files_->stamp(key); }
  std::vector<Entry> list(std::string_view prefix) override { return files_->list(prefix); }

 private:
  static constexpr std::size_t kOpenFiles = 256;
  const std::shared_ptr<PyObject> adapter_;
  const std::shared_ptr<Store> files_;
};

}  // namespace

std::shared_ptr<Store> make_python_store(nb::handle adapter, std::string name, double revalidate_s) {
  return std::make_shared<PythonStore>(adapter, std::move(name), revalidate_s);
}

std::shared_ptr<Store> make_python_directory(nb::handle adapter, const std::string& root) {
  return std::make_shared<DirectoryOfStore>(adapter, root);
}

nb::object adapter_of(const Store& store) {
  if (const auto* const python = dynamic_cast<const PythonStore*>(&store)) return python->adapter();
  if (const auto* const directory = dynamic_cast<const DirectoryOfStore*>(&store)) return directory->adapter();
  return nb::none();
}

}  // namespace damacy::python
