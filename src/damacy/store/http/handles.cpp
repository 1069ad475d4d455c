#include "damacy/store/http/handles.h"

#include <cstddef>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/store/http/curl.h"

namespace damacy::http {
namespace {

constexpr std::size_t kIdleHandles = 512;

// Handles that no transfer uses.
class IdleHandles {
 public:
  void* take() {
    {
      const Lock lock(mutex_);
      if (!handles_.empty()) {
        void* const handle = handles_.back();
        handles_.pop_back();
        return handle;
      }
    }
    void* const handle = curl().easy_init();
    if (handle == nullptr) throw Error::out_of_memory();
    return handle;
  }
  void give(void* handle) {
    {
      const Lock lock(mutex_);
      if (handles_.size() < kIdleHandles) {
        handles_.push_back(handle);
        return;
      }
    }
    curl().easy_cleanup(handle);
  }

 private:
  Mutex mutex_;
  std::vector<void*> handles_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace

Handle::Handle() : value(one_per_process<IdleHandles>().take()) {}

Handle::~Handle() {
  if (epoch == fork_epoch()) one_per_process<IdleHandles>().give(value);
}

HeaderList::~HeaderList() {
  curl().slist_free_all(value);
}

void HeaderList::add(const std::string& line) {
  void* const longer = curl().slist_append(value, line.c_str());
  if (longer == nullptr) throw Error::out_of_memory();
  value = longer;
}

}  // namespace damacy::http
