// How threads of the library enter Python, so that none is there when the interpreter ends; and objects that they drop
// without the GIL. Knows the GIL; not what is called.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bindings.h"
#include "damacy/core/mutex.h"

namespace damacy::python {

// Which threads of the library are in Python, so that none is when the interpreter ends: a thread that waits for the
// GIL then would never return, and a thread that joins it would hang too. Also keeps objects that were dropped without
// the GIL until a thread has it.
class Gate {
 public:
  bool enter();
  void leave();
  void close();  // by an exit handler of Python, without the GIL
  bool is_closed();
  void drop_later(PyObject* object);
  void drop_now();  // with the GIL; dropping may run any code

 private:
  Mutex mutex_;
  Condition left_;
  bool closed_ DAMACY_GUARDED_BY(mutex_) = false;
  int inside_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::vector<PyObject*> dropped_ DAMACY_GUARDED_BY(mutex_);
};

// Of the process.
Gate& gate();

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
std::shared_ptr<PyObject> shared_object(nb::handle object);

// What a thread throws that must not enter Python any more.
Error python_ends();

// Of bytes that need not be UTF-8.
nb::object str_of(std::string_view bytes);

}  // namespace damacy::python
