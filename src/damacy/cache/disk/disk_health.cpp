#include "damacy/cache/disk/disk_health.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"

namespace damacy {

void DiskHealth::failed(const char* what, int error) noexcept {
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EROFS || error == EFBIG;
  if ((is_full ? read_only_ : off_).exchange(true) || (is_full && off_)) return;
  static_cast<void>(failure_of([&] {
    log(LogLevel::warn,
        formatted("disk_cache: cannot {} in {}: {}; {}", what, path_, std::string_view(std::strerror(error)),
                  is_full ? "nothing more is kept there" : "it is not used any more"));
  }));
}

}  // namespace damacy
