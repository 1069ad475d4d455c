// Documents of groups: levels never lead out of the group, and malformed consolidated metadata never fail one.
#include "damacy/core/formatted.h"
#include "zarr_support.h"

namespace {

using namespace damacy;

void check_group(const GroupMetadata& group) {
  fuzz::require(group.has_multiscales == !group.level_paths.empty(), "an image has levels");
  fuzz::require(group.has_multiscales == (group.multiscales_count > 0), "an image is counted");
  fuzz::require(!group.consolidated_malformed || group.consolidated_arrays.empty(), "nothing of a malformed map");
  fuzz::require(group.axes.size() == group.axis_types.size(), "a type an axis");
  for (const std::string& path : group.level_paths) {
    const std::string framed = formatted("/{}/", path);
    fuzz::require(!path.empty() && path.find('\0') == path.npos, "a path");
    for (const char* bad : {"//", "/./", "/../"})
      fuzz::require(framed.find(bad) == framed.npos, "a path below the group");
  }
}

template <class Parse>
void run(Parse parse) {
  try {
    check_group(parse());
  } catch (const Error& e) {
    fuzz::check_error(e);
  }
}

}  // namespace

// The first byte says what the rest is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr std::string_view kGroup = R"({"zarr_format":2})";
  switch (data[0] % 5) {
    case 0:
      run([&] { return parse_v3_group(rest); });
      break;
    case 1:
      run([&] {
        return parse_v3_group(formatted(R"({{"zarr_format":3,"node_type":"group","attributes":{}}})", rest));
      });
      break;
    case 2:
      run([&] { return parse_v2_group(rest, "", ""); });
      break;
    case 3:
      run([&] { return parse_v2_group(kGroup, rest, ""); });
      break;
    default: {
      const GroupMetadata group = parse_v2_group(kGroup, "", rest);  // never throws
      check_group(group);
    }
  }
  return 0;
}
