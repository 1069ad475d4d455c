// Where the fakes of nvCOMP are, and how a test steers one.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "fakes/fake_paths.h"

namespace damacy::fakes {

// `which`: 4, 5, 6, or hollow.
inline std::string nvcomp_file(const std::string& which) {
  return std::string(kFakeNvcompFolder) + "/libdamacy_fake_nvcomp_" + which + ".so";
}

// Opened a second time, which is the same library to the loader. Leaves it as it found it.
class NvcompKnobs {
 public:
  explicit NvcompKnobs(const std::string& which) : handle_(::dlopen(nvcomp_file(which).c_str(), RTLD_NOW)) {}
  NvcompKnobs(const NvcompKnobs&) = delete;
  NvcompKnobs& operator=(const NvcompKnobs&) = delete;
  ~NvcompKnobs() {
    set("temp_per_byte", 3);
    set("refuse", 0);
    set("half", 0);
    set("alignment", 1);
    set("calls", 0);
    ::dlclose(handle_);
  }
  void set(const char* what, std::int64_t value) const {
    reinterpret_cast<void (*)(const char*, std::int64_t)>(::dlsym(handle_, "fake_nvcomp_set"))(what, value);
  }
  std::int64_t get(const char* what) const {
    return reinterpret_cast<std::int64_t (*)(const char*)>(::dlsym(handle_, "fake_nvcomp_get"))(what);
  }

 private:
  void* handle_;
};

}  // namespace damacy::fakes
