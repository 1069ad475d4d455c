#include "damacy/device/gpu_memory.h"

#include <gtest/gtest.h>

namespace damacy {
namespace {

// Two GPUs with 10 and 20 bytes free; the second is also known by its name.
class TwoGpus final : public GpuMemory {
 public:
  std::optional<std::uint64_t> free_of_index(unsigned index) override {
    return index < 2 ? std::optional<std::uint64_t>(10 * (index + 1)) : std::nullopt;
  }
  std::optional<std::uint64_t> free_of_name(const std::string& uuid) override {
    return uuid == "GPU-1" ? std::optional<std::uint64_t>(20) : std::nullopt;
  }
};

TEST(free_gpu_memory, is_that_of_the_visible_gpu) {
  struct Case {
    unsigned ordinal;
    std::optional<std::string> visible;
    std::optional<std::uint64_t> free;
  };
  const Case cases[] = {
      {0, std::nullopt, 10},
      {1, std::nullopt, 20},
      {7, std::nullopt, std::nullopt},
      {0, "1", 20},
      {1, "1, 0", 10},
      {0, "GPU-1", 20},
      {0, " GPU-1 ,0", 20},
      {0, "MIG-x", std::nullopt},
      {3, "0", std::nullopt},
      {0, "", std::nullopt},
      {0, "-1", std::nullopt},
      {1, "0,,1", std::nullopt},
      {0, "99999999999", std::nullopt},
  };
  TwoGpus gpus;
  for (const Case& one : cases)
    EXPECT_EQ(free_gpu_memory(gpus, one.ordinal, one.visible), one.free)
        << one.ordinal << " of " << one.visible.value_or("all");
}

}  // namespace
}  // namespace damacy
