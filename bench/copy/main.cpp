// copy_cuda_check: compares the CUDA copier with the host's, then measures its speed and that of copy plans. Prints one
// JSON object per line; exit code 1: a result was wrong.
// usage: copy_cuda_check [check|speed|plans|all] [--seconds S] [--seed N] [--placements N] [--exact] [--case NAME]...
#include <cstring>
#include <string>

#include "check.h"
#include "plans.h"
#include "speed.h"

int main(int argc, char** argv) {
  using namespace damacy::bench;
  CheckOptions options;
  std::string what = "all";
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--exact")
      options.exact = true;
    else if (word == "--case" && has_value)
      wanted.emplace_back(argv[++i]);
    else if (word == "--seconds" && has_value)
      options.seconds = std::atof(argv[++i]);
    else if (word == "--seed" && has_value)
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    else if (word == "--placements" && has_value)
      options.most = std::strtoull(argv[++i], nullptr, 10);
    else
      what = word;
  }
  check(cudaSetDevice(0), "device");
  check(cudaFree(nullptr), "context");
  Runner runner;
  bool right = true;
  const bool all = what == "all";
  if (all || what == "check") right = check_random(runner, options);
  if ((all || what == "check") && !options.exact)
    right = check_every_value(runner) && check_every_pair(runner) && right;
  if (all || what == "speed") right = time_all(runner, wanted) && right;
  if (all || what == "plans") right = time_plans(runner) && right;
  std::printf("{\"all_right\": %s}\n", right ? "true" : "false");
  return right ? 0 : 1;
}
