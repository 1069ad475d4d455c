#include "python_store.h"

#include <chrono>
#include <utility>

#include <nanobind/stl/shared_ptr.h>

#include "damacy/core/formatted.h"
#include "damacy/store/asked_store.h"
#include "python_gate.h"
#include "store_answer.h"

namespace damacy::python {
namespace {

const char* name_of(Question::What what) {
  switch (what) {
    case Question::What::open:
      return "open";
    case Question::What::stamp:
      return "stamp";
    case Question::What::list:
      return "list";
    case Question::What::read:
      break;
  }
  return "read";
}

// Asks an adapter of damacy._stores.adapters.
class PythonAsker final : public Asker {
 public:
  explicit PythonAsker(nb::handle adapter) : adapter_(shared_object(adapter)) {}

  nb::object adapter() const { return nb::borrow(adapter_.get()); }

  std::shared_ptr<StoreAnswer> ask(const Question& question) override {
    auto answer = std::make_shared<PythonAnswer>();
    const InPython inside;
    if (!inside) throw python_ends();
    const NoUnwind stays;
    gate().drop_now();
    try {
      const nb::handle adapter(adapter_.get());
      answer->set_request(adapter.attr("begin")(answer, name_of(question.what), str_of(question.key), question.offset,
                                                question.offset + question.size, str_of(question.version),
                                                question.object_size));
    } catch (nb::python_error& error) {
      const nb::str type(error.type().attr("__name__"));  // its text may hold secrets
      throw Error(Status::io, formatted("the request to the store failed: {}", type.c_str()), "io");
    }
    return answer;
  }

  std::optional<Error> why_ended() override { return gate().is_closed() ? std::optional(python_ends()) : std::nullopt; }

 private:
  const std::shared_ptr<PyObject> adapter_;
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
  const auto revalidate = std::chrono::duration_cast<Clock::Time>(std::chrono::duration<double>(revalidate_s));
  return make_asked_store(std::make_shared<PythonAsker>(adapter), std::move(name), revalidate);
}

std::shared_ptr<Store> make_python_directory(nb::handle adapter, const std::string& root) {
  return std::make_shared<DirectoryOfStore>(adapter, root);
}

nb::object adapter_of(const Store& store) {
  if (const auto* const asker = dynamic_cast<const PythonAsker*>(asker_of(store))) return asker->adapter();
  if (const auto* const directory = dynamic_cast<const DirectoryOfStore*>(&store)) return directory->adapter();
  return nb::none();
}

}  // namespace damacy::python
