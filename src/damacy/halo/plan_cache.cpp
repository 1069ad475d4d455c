// The key is a text of integers, which holds all that a plan depends on.
#include "damacy/halo/plan_cache.h"

#include <list>
#include <string>
#include <unordered_map>
#include <utility>

#include "damacy/core/mutex.h"

namespace damacy::halo {
namespace {

class Key {
 public:
  void add(std::int64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void add(const Dims& dims) {
    add(static_cast<std::int64_t>(dims.size()));
    for (const auto value : dims) add(value);
  }
  void add(const Field& field) {
    add(static_cast<std::int64_t>(field.dtype));
    add(field.shape);
    add(field.strides);
    add(field.i_axis);
    add(field.j_axis);
    add(field.ranking);
  }
  void add(const FieldBox& box) {
    add(box.field);
    add(box.box.start);
    add(box.box.stop);
  }
  void add(const std::optional<FieldBox>& box) {
    add(box.has_value());
    if (box) add(*box);
  }
  void add(const Entry& entry) {
    add(entry.x);
    add(entry.y);
    add(entry.rotation);
    add(entry.negate);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

std::string key_of(const std::vector<Field>& fields, const std::vector<Message>& messages, Direction direction,
                   const std::vector<Direct>& directs, bool adjoint) {
  Key key;
  key.add(static_cast<std::int64_t>(direction));
  key.add(adjoint);
  key.add(static_cast<std::int64_t>(fields.size()));
  for (const Field& field : fields) key.add(field);
  key.add(static_cast<std::int64_t>(messages.size()));
  for (const Message& message : messages) {
    key.add(static_cast<std::int64_t>(message.wire));
    key.add(static_cast<std::int64_t>(message.entries.size()));
    for (const Entry& entry : message.entries) key.add(entry);
  }
  for (const Direct& direct : directs) {
    key.add(direct.from);
    key.add(direct.to_x);
    key.add(direct.to_y);
  }
  return key.take();
}

using Plans = std::list<std::pair<std::string, std::shared_ptr<const Compiled>>>;  // most recently used first

struct Cache {
  Mutex mutex;
  Plans plans DAMACY_GUARDED_BY(mutex);
  std::unordered_map<std::string, Plans::iterator> places DAMACY_GUARDED_BY(mutex);
};

Cache& cache() {
  static Cache& kept = *std::make_unique<Cache>().release();  // plans may own memory of a driver that ends first
  return kept;
}

}  // namespace

std::shared_ptr<const Compiled> cached_plan(const std::vector<Field>& fields, const std::vector<Message>& messages,
                                            Direction direction, const std::vector<Direct>& directs, bool adjoint) {
  Cache& all = cache();
  std::string key = key_of(fields, messages, direction, directs, adjoint);
  {
    const Lock lock(all.mutex);
    const auto found = all.places.find(key);
    if (found != all.places.end()) {
      all.plans.splice(all.plans.begin(), all.plans, found->second);
      return found->second->second;
    }
  }
  auto plan = std::make_shared<const Compiled>(compile(fields, messages, directs, direction, adjoint));
  const Lock lock(all.mutex);
  if (const auto found = all.places.find(key); found != all.places.end()) return found->second->second;
  all.plans.emplace_front(key, plan);
  all.places.emplace(std::move(key), all.plans.begin());
  if (all.plans.size() > kMostCachedPlans) {
    all.places.erase(all.plans.back().first);
    all.plans.pop_back();
  }
  return plan;
}

CachedPlans cached_plans() {
  Cache& all = cache();
  const Lock lock(all.mutex);
  return {all.plans.begin(), all.plans.end()};
}

void clear_cached_plans() {
  Cache& all = cache();
  const Lock lock(all.mutex);
  all.places.clear();
  all.plans.clear();
}

}  // namespace damacy::halo
