// One multiscale image of NGFF: axes, levels and their transformations. Knows the rules of versions 0.1 to 0.5.
#pragma once

#include "damacy/zarr/detail/ngff_json.h"

namespace damacy::ngff {

// `version`: of the group (0.5), which the image's own takes precedence over.
[[nodiscard]] NgffImage parse_image(const json::Value& multiscale, const std::optional<std::string>& version,
                                    Problems& problems);

}  // namespace damacy::ngff
