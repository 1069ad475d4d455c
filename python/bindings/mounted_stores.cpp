// Stores of Python behind the library's seam, and the table of mounts. A reading thread holds the GIL only to make a
// request and to give the bytes back. It waits without the GIL, in C++, so that Python may end meanwhile.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "buffer_view.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/store/http/certificates.h"
#include "damacy/store/http/curl.h"
#include "damacy/store/mounts.h"
#include "damacy/store/storage_watch.h"

namespace damacy::python {
namespace {

using std::chrono::steady_clock;

// Which threads of the library are in Python, so that none is when the interpreter ends: a thread that waits for the
// GIL then would never return, and a thread that joins it would hang too. Also keeps objects that were dropped without
// the GIL until a thread has it.
class Gate {
 public:
  bool enter() {
    const Lock lock(mutex_);
    if (closed_) return false;
    ++inside_;
    return true;
  }
  void leave() {
    const Lock lock(mutex_);
    if (--inside_ == 0) left_.notify_all();
  }
  // By an exit handler of Python, without the GIL.
  void close() {
    Lock lock(mutex_);
    closed_ = true;
    left_.wait(lock, [this]() DAMACY_REQUIRES(mutex_) { return inside_ == 0; });
  }
  bool is_closed() {
    const Lock lock(mutex_);
    return closed_;
  }
  void drop_later(PyObject* object) {
    const Lock lock(mutex_);
    dropped_.push_back(object);
  }
  // With the GIL. Dropping may run any code, so the list is taken out before.
  void drop_now() {
    std::vector<PyObject*> dropped;
    {
      const Lock lock(mutex_);
      dropped.swap(dropped_);
    }
    for (PyObject* const object : dropped) Py_DECREF(object);
  }

 private:
  Mutex mutex_;
  Condition left_;
  bool closed_ DAMACY_GUARDED_BY(mutex_) = false;
  int inside_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::vector<PyObject*> dropped_ DAMACY_GUARDED_BY(mutex_);
};

Gate& gate() {
  return one_per_process<Gate>();
}

// A scope of a thread of the library in Python. False: Python ends, and the thread must not use it.
class InPython {
 public:
  InPython() : entered_(gate().enter()) {
    if (entered_) gil_.emplace();
  }
  ~InPython() {
    if (!entered_) return;
    gil_.reset();
    gate().leave();
  }
  InPython(const InPython&) = delete;
  InPython& operator=(const InPython&) = delete;
  explicit operator bool() const { return entered_; }

 private:
  const bool entered_;
  std::optional<GilAcquire> gil_;
};

// An object that any thread may drop, also one that holds a lock: it is released later, by a thread that has the GIL.
std::shared_ptr<PyObject> shared_object(nb::handle object) {
  return {Py_NewRef(object.ptr()), [](PyObject* dropped) { gate().drop_later(dropped); }};
}

Error python_ends() {
  return Error(Status::io, "the store was not asked: the Python interpreter ends", "io");
}

nb::object str_of(std::string_view bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

// The answer to one request. Python fills it once, on any thread and with the GIL; a thread of the library waits for
// it.
class StoreAnswer {
 public:
  struct Found {
    std::uint64_t size = 0;
    std::string tag;
    std::int64_t modified_ns = 0;
  };

  // -- Python --
  void absent() {
    finish([] {});
  }
  void found(std::uint64_t size, std::string tag, std::int64_t modified_ns, nb::object head) {
    BufferView view;
    if (!head.is_none() && !view.take(head, PyBUF_SIMPLE)) throw nb::python_error();
    finish([&] {
      found_ = {size, std::move(tag), modified_ns};
      is_found_ = true;
      if (view->obj != nullptr) head_.assign(view.bytes().begin(), view.bytes().end());
    });
  }
  void bytes(nb::object buffer) {
    auto view = std::make_unique<BufferView>(buffer, PyBUF_SIMPLE);
    finish([&] { view_ = std::move(view); });
  }
  void entries(const std::vector<std::pair<std::string, bool>>& found) {
    finish([&] {
      for (const auto& [name, is_directory] : found) entries_.push_back({name, is_directory});
    });
  }
  void fail(const std::string& message, const std::string& reason, std::optional<int> number, nb::object cause) {
    Error failure(Status::io, message, reason);
    if (number) failure.with_errno(*number);
    if (!cause.is_none()) failure.with_cause(shared_object(cause));
    finish([&] { failure_ = failure; });
  }

  // -- the reading thread --
  // With the GIL, after the request was made: what has cancel(), or None.
  void set_request(nb::object request) {
    {
      const Lock lock(mutex_);
      if (done_ || request.is_none()) return;
    }
    request_ = request.release().ptr();
  }

  // Without the GIL. Throws what failed; also if the thread was abandoned, or Python ends.
  void wait() {
    constexpr auto kLook = std::chrono::milliseconds(50);
    while (!done_within(kLook)) {
      const StorageWatch* const watch = StorageWatch::current();
      const bool is_abandoned = watch != nullptr && watch->abandoned();
      if (!is_abandoned && !gate().is_closed()) continue;
      cancel();
      throw is_abandoned ? Error(Status::io, "the store did not answer in time", "deadline") : python_ends();
    }
    if (failure_) throw *failure_;
  }

  // After wait().
  bool is_found() const { return is_found_; }
  Found& what() { return found_; }
  std::vector<std::byte>& head() { return head_; }
  std::vector<Entry>& listed() { return entries_; }
  // Copies the bytes if they are as many as `dst` takes; gives their number. Without the GIL.
  std::optional<std::size_t> take_bytes(std::span<std::byte> dst) {
    if (!view_) return std::nullopt;
    const std::span<const std::byte> from = view_->bytes();
    const std::size_t size = from.size();
    if (size == dst.size() && size > 0) std::memcpy(dst.data(), from.data(), size);
    drop_view();
    return size;
  }

  StoreAnswer() = default;
  StoreAnswer(const StoreAnswer&) = delete;
  StoreAnswer& operator=(const StoreAnswer&) = delete;
  ~StoreAnswer() { drop_view(); }

 private:
  template <class Set>
  void finish(Set set) {
    {
      const Lock lock(mutex_);
      if (done_ || left_) return;
      set();
      done_ = true;
      changed_.notify_all();
    }
    Py_CLEAR(request_);
  }

  bool done_within(std::chrono::milliseconds most) {
    Lock lock(mutex_);
    return changed_.wait_for(lock, most, [this]() DAMACY_REQUIRES(mutex_) { return done_; });
  }

  void cancel() {
    {
      const Lock lock(mutex_);
      left_ = true;
    }
    const InPython inside;
    if (!inside || request_ == nullptr) return;
    const NoUnwind stays;
    const nb::object request = nb::steal(std::exchange(request_, nullptr));
    try {
      request.attr("cancel")();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("cancelling a request of a store");
    }
  }

  void drop_view() {
    if (!view_) return;
    const InPython inside;
    if (inside) view_.reset();
    static_cast<void>(view_.release());  // else Python has ended, and its memory with it
  }

  Mutex mutex_;
  Condition changed_;
  bool done_ DAMACY_GUARDED_BY(mutex_) = false;
  bool left_ DAMACY_GUARDED_BY(mutex_) = false;  // cancelled: an answer is dropped
  PyObject* request_ = nullptr;                  // the GIL guards it
  // Set before `done_`, read after it.
  std::optional<Error> failure_;
  bool is_found_ = false;
  Found found_;
  std::vector<std::byte> head_;
  std::vector<Entry> entries_;
  std::unique_ptr<BufferView> view_;
};

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
  static constexpr std::size_t kKnownObjects = 65'536;

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

  // Objects of two stores never have the same stamp.
  Stamp stamp_of(const StoreAnswer::Found& found) const {
    return {.device = number_,
            .inode = std::hash<std::string>()(found.tag),
            .size = found.size,
            .modified_ns = found.modified_ns};
  }

  std::optional<Stamp> known(std::string_view key) {
    const Lock lock(mutex_);
    const auto at = known_.find(std::string(key));
    if (at == known_.end() || steady_clock::now() - at->second.when >= revalidate_) return std::nullopt;
    return at->second.stamp;
  }
  void keep(std::string_view key, const Stamp& stamp) {
    if (revalidate_ == steady_clock::duration::zero()) return;
    const Lock lock(mutex_);
    if (known_.size() >= kKnownObjects) known_.clear();
    known_.insert_or_assign(std::string(key), Known{stamp, steady_clock::now()});
  }
  void forget(std::string_view key) {
    const Lock lock(mutex_);
    known_.erase(std::string(key));
  }

  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> made{0};
    return (std::uint64_t{1} << 63) + ++made;  // no device of a file system has the highest bit
  }

  const std::shared_ptr<PyObject> adapter_;
  const std::string name_;
  const steady_clock::duration revalidate_;  // how old the answer to a question for a version may be
  const std::uint64_t number_ = next_number();
  Mutex mutex_;
  std::unordered_map<std::string, Known> known_ DAMACY_GUARDED_BY(mutex_);
};

// A directory that a store of Python stands for.
class DirectoryOfStore final : public Store {
 public:
  DirectoryOfStore(nb::handle adapter, const std::string& root)
      : adapter_(shared_object(adapter)), files_(make_file_store(root, kOpenFiles)) {}

  nb::object adapter() const { return nb::borrow(adapter_.get()); }
  std::string name() const override { return files_->name(); }
  std::string why_absent() override { return files_->why_absent(); }
  std::shared_ptr<Object> open(std::string_view key) override { return files_->open(key); }
  std::optional<Stamp> stamp(std::string_view key) override { return files_->stamp(key); }
  std::vector<Entry> list(std::string_view prefix) override { return files_->list(prefix); }

 private:
  static constexpr std::size_t kOpenFiles = 256;
  const std::shared_ptr<PyObject> adapter_;
  const std::shared_ptr<Store> files_;
};

nb::object adapter_of(const Store& store) {
  if (const auto* const python = dynamic_cast<const PythonStore*>(&store)) return python->adapter();
  if (const auto* const directory = dynamic_cast<const DirectoryOfStore*>(&store)) return directory->adapter();
  return nb::none();
}

// A callable of Python as the library calls it, on a thread that reads.
std::function<Credentials()> credentials_of(nb::object callable) {
  return [callable = shared_object(callable)]() -> Credentials {
    Credentials found;
    std::string failure;
    {
      const InPython inside;
      if (!inside) throw python_ends();
      const NoUnwind stays;
      gate().drop_now();
      try {
        const nb::object given = nb::handle(callable.get())();
        if (nb::isinstance<nb::str>(given)) {
          failure = nb::cast<std::string>(given);
        } else {
          const auto [key, secret, token, bearer, expires] =
              nb::cast<std::tuple<std::string, std::string, std::string, std::string, std::int64_t>>(given);
          found = {key, secret, token, bearer, expires == 0 ? std::nullopt : std::optional(expires)};
        }
      } catch (nb::python_error& error) {
        const nb::str type(error.type().attr("__name__"));  // its text may hold secrets
        failure = formatted("the credentials callable failed: {}", type.c_str());
      } catch (const nb::cast_error&) {
        failure = "the credentials callable gave something else than credentials";
      }
    }
    if (!failure.empty()) throw Error(Status::io, failure, "credentials");
    return found;
  };
}

// The file of the package certifi, which need not be there.
std::string certifi_file() {
  const InPython inside;
  if (!inside) return {};
  const NoUnwind stays;
  try {
    return nb::cast<std::string>(nb::module_::import_("certifi").attr("where")());
  } catch (nb::python_error&) {
  } catch (const nb::cast_error&) {
  }
  return {};
}

StoreOptions store_options_of(const nb::dict& fields) {
  StoreOptions options;
  const auto take = [&](const char* name, auto& field) {
    field = nb::cast<std::remove_reference_t<decltype(field)>>(fields[name]);
  };
  take("endpoint", options.endpoint);
  take("region", options.region);
  take("addressing", options.addressing);
  take("anonymous", options.anonymous);
  if (const nb::object callable = fields["credentials"]; !callable.is_none())
    options.credentials = credentials_of(callable);
  take("profile", options.profile);
  take("access_key_id", options.access_key_id);
  take("secret_access_key", options.secret_access_key);
  take("session_token", options.session_token);
  take("bearer_token", options.bearer_token);
  take("request_payer", options.request_payer);
  take("headers", options.headers);
  take("absent_status", options.absent_status);
  take("proxy", options.proxy);
  take("ca_file", options.ca_file);
  take("connect_timeout_s", options.connect_timeout_s);
  take("stall_timeout_s", options.stall_timeout_s);
  take("deadline_s", options.deadline_s);
  take("first_byte_timeout_s", options.first_byte_timeout_s);
  take("attempts", options.attempts);
  take("max_requests", options.max_requests);
  take("revalidate_s", options.revalidate_s);
  take("immutable", options.immutable);
  take("allow_unversioned", options.allow_unversioned);
  return options;
}

}  // namespace

void bind_mounted_stores(nb::module_& m) {
  nb::class_<StoreAnswer>(m, "StoreAnswer")
      .def("absent", &StoreAnswer::absent)
      .def("found", &StoreAnswer::found, nb::arg("size"), nb::arg("tag"), nb::arg("modified_ns"),
           nb::arg("head").none() = nb::none())
      .def("bytes", &StoreAnswer::bytes, nb::arg("buffer"))
      .def("entries", &StoreAnswer::entries, nb::arg("found"))
      .def("fail", &StoreAnswer::fail, nb::arg("message"), nb::arg("reason"), nb::arg("errno").none(),
           nb::arg("cause").none());
  m.def(
      "mount_store",
      [](const std::string& prefix, nb::object adapter, std::string name, double revalidate_s) {
        gate().drop_now();
        return mount(prefix, std::make_shared<PythonStore>(adapter, std::move(name), revalidate_s));
      },
      nb::arg("prefix"), nb::arg("adapter"), nb::arg("name"), nb::arg("revalidate_s"));
  m.def(
      "mount_directory",
      [](const std::string& prefix, nb::object adapter, const std::string& root) {
        gate().drop_now();
        return mount(prefix, std::make_shared<DirectoryOfStore>(adapter, root));
      },
      nb::arg("prefix"), nb::arg("adapter"), nb::arg("root"));
  http::set_last_resort(certifi_file);
  m.def(
      "libcurl_facts",
      [] {
        const http::CurlFacts& facts = http::curl_facts();
        const http::Certificates found = without_gil([] { return http::find_certificates({}, false); });
        nb::dict out;
        out["path"] = str_of(facts.path);
        out["version"] = str_of(facts.version);
        out["certificates"] = str_of(found.missing.empty() ? found.shown : "none; looked for: " + found.missing);
        return out;
      },
      "Path and version of the libcurl in use, which is loaded, and the CA certificates that servers are checked with.");
  m.def("check_store_options", [](const nb::dict& fields) { check(store_options_of(fields)); }, nb::arg("fields"));
  m.def(
      "mount_options",
      [](const std::string& prefix, const nb::dict& fields) {
        gate().drop_now();
        const StoreOptions options = store_options_of(fields);
        return without_gil([&] { return mount(prefix, options); });
      },
      nb::arg("prefix"), nb::arg("fields"));
  m.def(
      "unmount",
      [](const std::string& prefix) {
        unmount(prefix);
        gate().drop_now();
      },
      nb::arg("prefix"));
  m.def(
      "mounts",
      [] {
        nb::list out;
        for (const auto& [prefix, store] : mounts())
          out.append(nb::make_tuple(str_of(prefix), str_of(store->name()), adapter_of(*store)));
        return out;
      },
      "For each mount its prefix, the name of its store, and the adapter if Python mounted it.");
  m.def(
      "end_python_stores",
      [] {
        const GilRelease unlocked;
        gate().close();
      },
      "Fails requests to stores of Python that are under way and all later ones. For an exit handler.");
}

}  // namespace damacy::python
