#include "conformance/engine_suite.h"

namespace damacy {
namespace {

struct ThreadFixture {
  static std::unique_ptr<Engine> make(std::size_t threads) { return make_thread_engine(threads); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Threads, EngineSuite, ThreadFixture);

}  // namespace
}  // namespace damacy
