// The Python sample objects that native code carries for one pipeline, from a source to the batch that delivers them.
// Native code drops a sample on any thread, without the GIL and possibly under locks. The object is then only put on a
// list, and its reference is released at the next call with the GIL. Does not know what a sample is.
#pragma once

#include <atomic>
#include <list>
#include <memory>

#include <nanobind/nanobind.h>

namespace damacy::python {

namespace nb = nanobind;

// The GIL guards all members, unless a comment says otherwise.
class SampleObjects : public std::enable_shared_from_this<SampleObjects> {
 public:
  SampleObjects() = default;
  ~SampleObjects();  // takes the GIL
  SampleObjects(const SampleObjects&) = delete;
  SampleObjects& operator=(const SampleObjects&) = delete;

  // Holds `sample` until the last copy of the returned pointer is destroyed, on any thread.
  std::shared_ptr<const void> carry(nb::object sample);
  // Returns the object given to carry(), for the thread that delivers its batch; None after release_all(). Cannot fail.
  static nb::object take(const std::shared_ptr<const void>& carried);
  // Releases the samples that native code dropped. May run finalizers.
  void release_dropped();
  void release_all();
  int visit(visitproc visitor, void* arg) const;

 private:
  struct Carried {
    PyObject* sample;                     // null: delivered
    std::shared_ptr<SampleObjects> home;  // until it is dropped
    std::list<Carried>::iterator self;
    Carried* next_dropped = nullptr;
  };
  static void drop(Carried* carried) noexcept;  // any thread, no GIL

  std::list<Carried> carried_;
  std::atomic<Carried*> dropped_ = nullptr;  // a stack, linked by next_dropped
};

}  // namespace damacy::python
