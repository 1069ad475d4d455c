// The C interface as a C program sees it: errors, files, arrays, batches and halo exchange. Ends with 1 at the first
// check that fails.
//   interface_test FOLDER        an empty folder, for the files that it writes
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <damacy/c.h>

#define CHECK(condition) check(condition, #condition, __LINE__)
#define OK(call) check((call) == DAMACY_OK, #call, __LINE__)
#define FAILS(status, call) check((call) == (status) && damacy_error_status() == (status), #call, __LINE__)

static void check(int is_true, const char* text, int line) {
  if (is_true) return;
  fprintf(stderr, "line %d: %s\nlast error: %s\n", line, text, damacy_error_text());
  exit(1);
}

static const char* path_in(const char* folder, const char* name, char* buffer, size_t size) {
  CHECK((size_t)snprintf(buffer, size, "%s/%s", folder, name) < size);
  return buffer;
}

static void write_file(const char* path, const void* data, size_t size) {
  FILE* file = fopen(path, "wb");
  CHECK(file != NULL);
  CHECK(fwrite(data, 1, size, file) == size);
  CHECK(fclose(file) == 0);
}

// -- errors
// ------------------------------------------------------------------------------------------------------------

static void test_errors(const char* folder) {
  char path[4096];
  CHECK(strcmp(damacy_error_text(), "") == 0 && damacy_error_status() == DAMACY_OK);
  CHECK(damacy_error_field("message") == NULL);

  damacy_file* file = NULL;
  FAILS(DAMACY_IO, damacy_file_open(path_in(folder, "absent", path, sizeof path), "r", &file));
  CHECK(file == NULL);
  CHECK(strstr(damacy_error_text(), path) != NULL);
  CHECK(strcmp(damacy_error_field("path"), path) == 0);
  int64_t number = 0;
  CHECK(damacy_error_number("errno", &number) == 1 && number == 2);
  CHECK(damacy_error_number("no such field", &number) == 0 && number == 2);

  FAILS(DAMACY_INVAL, damacy_file_open(path, "q", &file));
  FAILS(DAMACY_INVAL, damacy_file_open(NULL, "r", &file));
  FAILS(DAMACY_INVAL, damacy_file_open(path, "r", NULL));
  CHECK(strstr(damacy_error_text(), "out is NULL") != NULL);
  CHECK(damacy_error_field("path") == NULL);  // the fields of the last error only
  FAILS(DAMACY_INVAL, damacy_file_read(NULL, path, 1, 0, NULL));
  FAILS(DAMACY_INVAL, damacy_transfer_wait(NULL, 1, NULL));
  FAILS(DAMACY_INVAL, damacy_array_rank(NULL, NULL));
  FAILS(DAMACY_INVAL, damacy_pipeline_push(NULL, NULL));
  FAILS(DAMACY_INVAL, damacy_batch_data(NULL, NULL, NULL));
  FAILS(DAMACY_INVAL, damacy_halo_exchange(NULL, 0, NULL));
  FAILS(DAMACY_INVAL, damacy_halo_pack(NULL, 0, NULL, NULL));
  damacy_file_destroy(NULL);
  damacy_pipeline_destroy(NULL);
  damacy_halo_exchanger_destroy(NULL);
  CHECK(damacy_dtype_size(DAMACY_F64) == 8 && damacy_dtype_size(99) == 0);
}

// -- files
// -------------------------------------------------------------------------------------------------------------

static void test_files(const char* folder) {
  enum { kSize = 3000000 };
  char path[4096];
  unsigned char* written = malloc(kSize);
  unsigned char* read = calloc(kSize, 1);
  for (int n = 0; n < kSize; ++n) written[n] = (unsigned char)(n * 7 % 251);

  damacy_file* file = NULL;
  size_t count = 0;
  OK(damacy_file_open(path_in(folder, "file", path, sizeof path), "w+", &file));
  OK(damacy_file_write(file, written, kSize, 0, &count));
  CHECK(count == kSize);
  OK(damacy_file_read(file, read, kSize, 0, &count));
  CHECK(count == kSize && memcmp(read, written, kSize) == 0);
  OK(damacy_file_read(file, read, 100, kSize - 40, &count));
  CHECK(count == 40);

  memset(read, 0, kSize);
  damacy_transfer* transfer = NULL;
  OK(damacy_file_begin_read(file, read, 1000000, 5, &transfer));
  OK(damacy_transfer_wait(transfer, 60, &count));
  CHECK(count == 1000000 && memcmp(read, written + 5, 1000000) == 0);
  OK(damacy_transfer_wait(transfer, -1, NULL));  // again: the same result
  damacy_file_destroy(file);
  damacy_transfer_destroy(transfer);

  OK(damacy_file_open(path, "r", &file));
  FAILS(DAMACY_IO, damacy_file_write(file, written, 1, 0, NULL));
  damacy_file_destroy(file);
  free(written);
  free(read);
}

// -- arrays and batches
// ------------------------------------------------------------------------------------------------

// A zarr array of 6 x 8 int32 in chunks of 3 x 4, whose elements are 100 row + column.
static void write_array(const char* uri) {
  static const char kDocument[] =
      "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": [6, 8], \"data_type\": \"int32\","
      " \"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": [3, 4]}},"
      " \"chunk_key_encoding\": {\"name\": \"default\", \"configuration\": {\"separator\": \".\"}},"
      " \"fill_value\": 0, \"codecs\": [{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}]}";
  char path[4096];
  CHECK(mkdir(uri, 0755) == 0);
  write_file(path_in(uri, "zarr.json", path, sizeof path), kDocument, sizeof kDocument - 1);
  for (int row = 0; row < 2; ++row)
    for (int column = 0; column < 2; ++column) {
      int32_t chunk[3][4];
      char name[16];
      for (int j = 0; j < 3; ++j)
        for (int i = 0; i < 4; ++i) chunk[j][i] = 100 * (3 * row + j) + 4 * column + i;
      snprintf(name, sizeof name, "c.%d.%d", row, column);
      write_file(path_in(uri, name, path, sizeof path), chunk, sizeof chunk);
    }
}

static void test_arrays(const char* uri) {
  damacy_array* array = NULL;
  int rank = 0, dtype = 0;
  int64_t shape[2];
  int32_t box[2][3];
  FAILS(DAMACY_NOTFOUND, damacy_array_open("no/such/array", &array));
  CHECK(damacy_error_field("uri") != NULL);
  OK(damacy_array_open(uri, &array));
  OK(damacy_array_rank(array, &rank));
  OK(damacy_array_dtype(array, &dtype));
  OK(damacy_array_shape(array, shape));
  CHECK(rank == 2 && dtype == DAMACY_I32 && shape[0] == 6 && shape[1] == 8);
  const int64_t start[] = {2, 3}, stop[] = {4, 6};
  OK(damacy_array_read(array, start, stop, box, sizeof box));
  for (int j = 0; j < 2; ++j)
    for (int i = 0; i < 3; ++i) CHECK(box[j][i] == 100 * (2 + j) + 3 + i);
  FAILS(DAMACY_INVAL, damacy_array_read(array, start, stop, box, sizeof box - 1));
  FAILS(DAMACY_INVAL, damacy_array_read(array, stop, start, box, sizeof box));
  FAILS(DAMACY_INVAL, damacy_array_read(array, NULL, stop, box, sizeof box));
  damacy_array_destroy(array);
}

// As DLPack's header has it.
struct DLManagedTensor {
  struct {
    void* data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
  } tensor;
  void* context;
  void (*deleter)(struct DLManagedTensor* self);
};

static damacy_pipeline* make_pipeline(void) {
  damacy_options* options = NULL;
  damacy_pipeline* pipeline = NULL;
  OK(damacy_options_create(&options));
  OK(damacy_options_set_integer(options, "batch_size", 2));
  OK(damacy_options_set_integer(options, "host_buffer_bytes", 64 << 20));
  OK(damacy_options_set_number(options, "pop_timeout_s", 30));
  OK(damacy_options_set_text(options, "device", "cpu"));
  OK(damacy_options_set_text(options, "dtype", "float32"));
  FAILS(DAMACY_INVAL, damacy_options_set_integer(options, "batchsize", 2));
  CHECK(strstr(damacy_error_text(), "batch_size") != NULL);
  FAILS(DAMACY_INVAL, damacy_options_set_text(options, "device", "cuda:x"));
  FAILS(DAMACY_INVAL, damacy_options_set_text(options, "cache", "/tmp"));
  CHECK(strstr(damacy_error_text(), "disk_cache") != NULL);
  OK(damacy_options_set_text(options, "disk_cache", ""));
  OK(damacy_options_set_integer(options, "disk_cache_bytes", 0));
  OK(damacy_options_set_integer(options, "disk_cache_shared", 0));
  FAILS(DAMACY_INVAL, damacy_options_set_text(options, "dtype", "complex64"));
  OK(damacy_pipeline_create(options, &pipeline));
  damacy_options_destroy(options);
  return pipeline;
}

static void check_batch(const damacy_batch* batch, int first) {
  int rank = 0, dtype = 0, type = 0, index = -1, valid = 0;
  int64_t shape[3], stream_index = -1;
  const void* data = NULL;
  OK(damacy_batch_rank(batch, NULL, &rank));
  OK(damacy_batch_shape(batch, NULL, shape));
  OK(damacy_batch_dtype(batch, NULL, &dtype));
  OK(damacy_batch_device(batch, &type, &index));
  OK(damacy_batch_data(batch, NULL, &data));
  CHECK(rank == 3 && shape[0] == 2 && shape[1] == 2 && shape[2] == 3 && dtype == DAMACY_F32 && type == 1);
  for (int row = 0; row < 2; ++row)
    for (int j = 0; j < 2; ++j)
      for (int i = 0; i < 3; ++i)
        CHECK(((const float*)data)[(row * 2 + j) * 3 + i] == (float)(100 * (first + row + j) + 2 + i));
  OK(damacy_batch_row_valid(batch, 1, &valid));
  OK(damacy_batch_row_index(batch, 1, &stream_index));
  CHECK(valid == 1 && stream_index == first + 1);
  FAILS(DAMACY_INVAL, damacy_batch_row_valid(batch, 2, &valid));
  FAILS(DAMACY_INVAL, damacy_batch_data(batch, "no such array", &data));
}

static void test_batches(const char* uri) {
  damacy_pipeline* pipeline = make_pipeline();
  damacy_samples* samples = NULL;
  OK(damacy_samples_create(&samples));
  for (int64_t n = 0; n < 4; ++n) {
    const int64_t start[] = {n, 2}, stop[] = {n + 2, 5};
    OK(damacy_samples_add(samples, uri, 2, start, stop, NULL));
  }
  OK(damacy_pipeline_push(pipeline, samples));
  damacy_samples_destroy(samples);

  damacy_batch *batch = NULL, *last = NULL;
  OK(damacy_pipeline_pop(pipeline, 30, &batch));
  check_batch(batch, 0);
  struct DLManagedTensor* tensor = NULL;
  OK(damacy_batch_to_dlpack(batch, NULL, &tensor));
  damacy_batch_destroy(batch);
  OK(damacy_pipeline_pop(pipeline, -1, &last));
  check_batch(last, 2);
  int64_t batches = 0;
  OK(damacy_pipeline_counter(pipeline, "disk_hits", &batches));
  CHECK(batches == 0);
  OK(damacy_pipeline_counter(pipeline, "batches_emitted", &batches));
  CHECK(batches == 2);
  FAILS(DAMACY_INVAL, damacy_pipeline_counter(pipeline, "no such counter", &batches));
  OK(damacy_pipeline_close(pipeline));
  FAILS(DAMACY_SHUTDOWN, damacy_pipeline_flush(pipeline));
  damacy_pipeline_destroy(pipeline);
  check_batch(last, 2);  // batches outlive the pipeline
  damacy_batch_destroy(last);

  CHECK(tensor->tensor.ndim == 3 && tensor->tensor.bits == 32 && tensor->tensor.code == 2);
  const float* first = (const float*)((const char*)tensor->tensor.data + tensor->tensor.byte_offset);
  CHECK(first[0] == 2 && first[11] == 204);
  tensor->deleter(tensor);
}

static void test_stores(void) {
  damacy_store_options* options = NULL;
  OK(damacy_store_options_create(&options));
  OK(damacy_store_options_set(options, "anonymous", "true"));
  OK(damacy_store_options_set(options, "attempts", "2"));
  FAILS(DAMACY_INVAL, damacy_store_options_set(options, "attempts", "two"));
  FAILS(DAMACY_INVAL, damacy_store_options_set(options, "atempts", "2"));
  CHECK(strstr(damacy_error_text(), "attempts") != NULL);
  OK(damacy_mount("s3://bucket-of-this-test/", options));
  damacy_store_options_destroy(options);
  damacy_store_options_destroy(NULL);
  OK(damacy_unmount("s3://bucket-of-this-test/"));
  FAILS(DAMACY_INVAL, damacy_unmount("s3://bucket-of-this-test/"));
}

// Twice the stored elements, and one, as a wanted array says.
static void test_wanted_arrays(const char* uri) {
  damacy_options* options = NULL;
  damacy_pipeline* pipeline = NULL;
  damacy_samples* samples = NULL;
  damacy_batch* batch = NULL;
  const void* data = NULL;
  const int64_t start[] = {1, 2}, stop[] = {3, 5};
  OK(damacy_options_create(&options));
  OK(damacy_options_set_integer(options, "batch_size", 1));
  OK(damacy_options_set_integer(options, "host_buffer_bytes", 64 << 20));
  OK(damacy_options_set_text(options, "device", "cpu"));
  FAILS(DAMACY_INVAL, damacy_options_set_array(options, "", "scale", "2"));
  OK(damacy_options_add_array(options, "", DAMACY_F32));
  OK(damacy_options_set_array(options, "", "scale", "2"));
  OK(damacy_options_set_array(options, "", "offset", "1"));
  OK(damacy_options_set_array(options, "", "dtype", "float64"));
  OK(damacy_pipeline_create(options, &pipeline));
  damacy_options_destroy(options);
  OK(damacy_samples_create(&samples));
  OK(damacy_samples_add(samples, uri, 2, start, stop, NULL));
  OK(damacy_pipeline_push(pipeline, samples));
  damacy_samples_destroy(samples);
  OK(damacy_pipeline_pop(pipeline, 30, &batch));
  OK(damacy_batch_data(batch, NULL, &data));
  for (int j = 0; j < 2; ++j)
    for (int i = 0; i < 3; ++i) CHECK(((const double*)data)[j * 3 + i] == 2 * (100 * (1 + j) + 2 + i) + 1);
  damacy_batch_destroy(batch);
  damacy_pipeline_destroy(pipeline);
}

static void test_parts(const char* uri) {
  damacy_pipeline* pipeline = make_pipeline();
  damacy_samples* samples = NULL;
  const int64_t start[] = {0, 0}, stop[] = {4, 8}, step[] = {2, 4};
  OK(damacy_samples_create(&samples));
  FAILS(DAMACY_INVAL, damacy_samples_add_part(samples, "image", uri, 2, start, stop, NULL));
  OK(damacy_samples_add_empty(samples));
  OK(damacy_samples_add_part(samples, "image", uri, 2, start, stop, NULL));
  OK(damacy_samples_add_part(samples, "coarse", uri, 2, start, stop, step));
  OK(damacy_pipeline_push(pipeline, samples));
  OK(damacy_pipeline_flush(pipeline));
  damacy_samples_destroy(samples);
  damacy_batch* batch = NULL;
  const void* data = NULL;
  int64_t shape[3];
  OK(damacy_pipeline_pop(pipeline, 30, &batch));
  OK(damacy_batch_shape(batch, "coarse", shape));
  OK(damacy_batch_data(batch, "coarse", &data));
  CHECK(shape[0] == 1 && shape[1] == 2 && shape[2] == 2);
  const float expected[] = {0, 4, 200, 204};
  CHECK(memcmp(data, expected, sizeof expected) == 0);
  damacy_batch_destroy(batch);
  FAILS(DAMACY_AGAIN, damacy_pipeline_pop(pipeline, 0, &batch));
  damacy_pipeline_destroy(pipeline);
}

// -- halo exchange
// -----------------------------------------------------------------------------------------------------

enum { kRows = 3, kColumns = 4, kHeight = kRows + 2, kWidth = kColumns + 2 };
typedef double Block[kHeight][kWidth];

static damacy_halo_field* make_field(void) {
  static const char* const dims[] = {"j", "i"};
  const int64_t shape[] = {kHeight, kWidth}, origin[] = {1, 1}, extent[] = {kRows, kColumns};
  damacy_halo_field* field = NULL;
  OK(damacy_halo_field_create(2, dims, DAMACY_F64, shape, NULL, origin, extent, &field));
  return field;
}

static void fill(Block block, int rank) {
  for (int j = 0; j < kHeight; ++j)
    for (int i = 0; i < kWidth; ++i) {
      const int is_compute = j > 0 && j <= kRows && i > 0 && i <= kColumns;
      block[j][i] = is_compute ? 1000 * rank + 10 * j + i : -1;
    }
}

static void test_packing(void) {
  damacy_halo_field* field = make_field();
  damacy_halo_specs* specs = NULL;
  damacy_halo_transformer* transformer = NULL;
  int64_t pack_start[2], pack_stop[2], unpack_start[2], unpack_stop[2];
  OK(damacy_halo_field_box(field, DAMACY_HALO_EAST, 1, 1, pack_start, pack_stop));
  OK(damacy_halo_field_box(field, DAMACY_HALO_WEST, 1, 0, unpack_start, unpack_stop));
  FAILS(DAMACY_INVAL, damacy_halo_field_box(field, DAMACY_HALO_WEST, 2, 0, unpack_start, unpack_stop));
  CHECK(strcmp(damacy_error_field("reason"), "outside-allocation") == 0);
  CHECK(pack_start[1] == kColumns && unpack_start[1] == 0 && pack_stop[0] == kRows + 1);
  OK(damacy_halo_specs_create(&specs));
  OK(damacy_halo_specs_add(specs, field, pack_start, pack_stop, 0, unpack_start, unpack_stop));
  FAILS(DAMACY_INVAL, damacy_halo_transformer_create(specs, NULL, 7, 1, &transformer));
  OK(damacy_halo_transformer_create(specs, NULL, DAMACY_HALO_NDSL, 1, &transformer));

  Block block;
  fill(block, 0);
  const void* const from[] = {block};
  void* const into[] = {block};
  void *sent = NULL, *received = NULL;
  size_t size = 0;
  OK(damacy_halo_pack(transformer, 1, from, NULL));
  OK(damacy_halo_pack_buffer(transformer, &sent, &size));
  CHECK(size == kRows * sizeof(double));
  for (int j = 0; j < kRows; ++j) CHECK(((const double*)sent)[j] == block[j + 1][kColumns]);
  OK(damacy_halo_unpack_buffer(transformer, &received, &size));
  memcpy(received, sent, size);
  OK(damacy_halo_unpack(transformer, 1, into, NULL));
  for (int j = 1; j <= kRows; ++j) CHECK(block[j][0] == block[j][kColumns]);
  FAILS(DAMACY_INVAL, damacy_halo_pack(transformer, 2, from, NULL));
  damacy_halo_transformer_destroy(transformer);
  damacy_halo_specs_destroy(specs);
  damacy_halo_field_destroy(field);
}

// Two blocks along i, periodic, whose corners come with the rows.
static damacy_halo_plan* make_plan(int rank) {
  const int64_t rows[] = {kRows}, columns[] = {kColumns, kColumns};
  damacy_halo_field* field = make_field();
  damacy_halo_plan* plan = NULL;
  OK(damacy_halo_plan_create(&plan));
  OK(damacy_halo_plan_add_field(plan, field));
  OK(damacy_halo_plan_add_axis(plan, "j", 1, rows, 1, 1, 1));
  OK(damacy_halo_plan_add_axis(plan, "i", 2, columns, 1, 1, 1));
  OK(damacy_halo_plan_compile_grid(plan, DAMACY_HALO_DIRECT, rank));
  damacy_halo_field_destroy(field);
  return plan;
}

// The cell of the whole periodic grid, whose first cell is that of rank 0.
static double cell(int rank, int j, int i) {
  const int column = (rank * kColumns + i - 1 + 2 * kColumns) % (2 * kColumns);
  const int row = (j - 1 + kRows) % kRows;
  return 1000 * (column / kColumns) + 10 * (row + 1) + column % kColumns + 1;
}

static void check_block(Block block, int rank) {
  for (int j = 0; j < kHeight; ++j)
    for (int i = 0; i < kWidth; ++i) CHECK(block[j][i] == cell(rank, j, i));
}

static void test_local_exchange(void) {
  damacy_halo_transport* transport = NULL;
  damacy_halo_exchanger* exchangers[2];
  damacy_halo_token* tokens[2];
  static Block blocks[2];
  damacy_halo_plan* empty = NULL;
  OK(damacy_halo_local_create(2, 30, &transport));
  OK(damacy_halo_plan_create(&empty));
  FAILS(DAMACY_INVAL, damacy_halo_exchanger_create(empty, transport, &exchangers[0]));
  damacy_halo_plan_destroy(empty);
  for (int rank = 0; rank < 2; ++rank) {
    damacy_halo_plan* plan = make_plan(rank);
    OK(damacy_halo_exchanger_create(plan, transport, &exchangers[rank]));
    damacy_halo_plan_destroy(plan);
    fill(blocks[rank], rank);
  }
  damacy_halo_transport_destroy(transport);
  for (int rank = 0; rank < 2; ++rank) {
    void* const arrays[] = {blocks[rank]};
    OK(damacy_halo_start(exchangers[rank], 1, arrays, &tokens[rank]));
  }
  for (int rank = 0; rank < 2; ++rank) {
    OK(damacy_halo_finish(exchangers[rank], tokens[rank]));
    check_block(blocks[rank], rank);
    damacy_halo_exchanger_destroy(exchangers[rank]);
  }
}

// A transport of the caller's: messages are copies in a list.
typedef struct Message {
  int64_t from, to;
  int tag;
  size_t size;
  void* data;
  struct Message* next;
} Message;

typedef struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  Message* first;
  int requests;  // that were made and not yet freed
} Mailbox;

typedef struct {
  int64_t from, to;
  int tag;
  size_t size;
  void* data;  // NULL for a send, which has ended when it returns
} Request;

static Request* new_request(Mailbox* box, Request given) {
  Request* request = malloc(sizeof *request);
  *request = given;
  ++box->requests;
  return request;
}

static int send_message(void* context, int64_t rank, int64_t peer, int tag, const void* data, size_t size,
                        void** request) {
  Mailbox* box = context;
  Message* message = malloc(sizeof *message);
  *message = (Message){rank, peer, tag, size, malloc(size), NULL};
  memcpy(message->data, data, size);
  pthread_mutex_lock(&box->mutex);
  Message** end = &box->first;
  while (*end != NULL) end = &(*end)->next;
  *end = message;
  *request = new_request(box, (Request){rank, peer, tag, size, NULL});
  pthread_cond_broadcast(&box->changed);
  pthread_mutex_unlock(&box->mutex);
  return 0;
}

static int receive_message(void* context, int64_t rank, int64_t peer, int tag, void* data, size_t size,
                           void** request) {
  Mailbox* box = context;
  pthread_mutex_lock(&box->mutex);
  *request = new_request(box, (Request){peer, rank, tag, size, data});
  pthread_mutex_unlock(&box->mutex);
  return 0;
}

static Message* find_message(Mailbox* box, const Request* wanted) {
  for (Message** at = &box->first; *at != NULL; at = &(*at)->next)
    if ((*at)->from == wanted->from && (*at)->to == wanted->to && (*at)->tag == wanted->tag) {
      Message* found = *at;
      *at = found->next;
      return found;
    }
  return NULL;
}

static int get_message(Message* message, const Request* request) {
  const int result = message->size == request->size ? 0 : 3;
  if (result == 0) memcpy(request->data, message->data, message->size);
  free(message->data);
  free(message);
  return result;
}

static int free_request(void* context, void* given) {
  Mailbox* box = context;
  pthread_mutex_lock(&box->mutex);
  --box->requests;
  pthread_mutex_unlock(&box->mutex);
  free(given);
  return 0;
}

static int wait_message(void* context, void* given) {
  Mailbox* box = context;
  Request* request = given;
  int result = 0;
  if (request->data != NULL) {
    Message* message = NULL;
    pthread_mutex_lock(&box->mutex);
    while ((message = find_message(box, request)) == NULL) pthread_cond_wait(&box->changed, &box->mutex);
    pthread_mutex_unlock(&box->mutex);
    result = get_message(message, request);
  }
  free_request(context, given);
  return result;
}

static int test_message(void* context, void* given, int* ended) {
  Mailbox* box = context;
  Request* request = given;
  int result = 0;
  *ended = 1;
  if (request->data != NULL) {
    pthread_mutex_lock(&box->mutex);
    Message* message = find_message(box, request);
    pthread_mutex_unlock(&box->mutex);
    *ended = message != NULL;
    if (*ended) result = get_message(message, request);
  }
  if (*ended) free_request(context, given);
  return result;
}

typedef struct {
  int rank;
  damacy_halo_transport* transport;
} Rank;

static void* exchange_rank(void* given) {
  const Rank* rank = given;
  damacy_halo_plan* plan = make_plan(rank->rank);
  damacy_halo_exchanger* exchanger = NULL;
  OK(damacy_halo_exchanger_create(plan, rank->transport, &exchanger));
  for (int step = 0; step < 5; ++step) {
    Block block;
    fill(block, rank->rank);
    void* const arrays[] = {block};
    OK(damacy_halo_exchange(exchanger, 1, arrays));
    check_block(block, rank->rank);
  }
  damacy_halo_exchanger_destroy(exchanger);
  damacy_halo_plan_destroy(plan);
  return NULL;
}

static int refuse(void* context, int64_t rank, int64_t peer, int tag, const void* data, size_t size, void** request) {
  (void)context, (void)rank, (void)peer, (void)tag, (void)data, (void)size, (void)request;
  return 17;
}

static void test_peer_without_exchanger(damacy_halo_callbacks callbacks) {
  Mailbox box = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0};
  callbacks.context = &box;
  damacy_halo_transport* transport = NULL;
  damacy_halo_exchanger* exchanger = NULL;
  damacy_halo_plan* plan = make_plan(0);
  OK(damacy_halo_callbacks_create(&callbacks, 0.01, &transport));
  FAILS(DAMACY_IO, damacy_halo_exchanger_create(plan, transport, &exchanger));
  CHECK(strstr(damacy_error_text(), "rank 0 timed out after 0.01 s: ranks [1] have no exchanger") != NULL);
  CHECK(box.requests == 0 && box.first->next == NULL);  // what was sent stays in the library
  free(box.first->data);
  free(box.first);
  damacy_halo_transport_destroy(transport);
  damacy_halo_plan_destroy(plan);
}

static void test_exchange_by_callbacks(void) {
  Mailbox box = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0};
  damacy_halo_callbacks callbacks = {sizeof callbacks, &box,         send_message, receive_message,
                                     wait_message,     test_message, free_request};
  damacy_halo_transport* transport = NULL;
  OK(damacy_halo_callbacks_create(&callbacks, 30, &transport));
  Rank ranks[] = {{0, transport}, {1, transport}};
  pthread_t other;
  CHECK(pthread_create(&other, NULL, exchange_rank, &ranks[1]) == 0);
  exchange_rank(&ranks[0]);
  CHECK(pthread_join(other, NULL) == 0);
  damacy_halo_transport_destroy(transport);
  CHECK(box.requests == 0 && box.first == NULL);
  test_peer_without_exchanger(callbacks);

  callbacks.send = refuse;
  damacy_halo_exchanger* exchanger = NULL;
  damacy_halo_plan* plan = make_plan(0);
  OK(damacy_halo_callbacks_create(&callbacks, 30, &transport));
  FAILS(DAMACY_IO, damacy_halo_exchanger_create(plan, transport, &exchanger));
  CHECK(strstr(damacy_error_text(), "17") != NULL);
  CHECK(box.requests == 0);  // the receives were cancelled
  damacy_halo_transport_destroy(transport);
  damacy_halo_plan_destroy(plan);
  callbacks.struct_size = 8;
  FAILS(DAMACY_INVAL, damacy_halo_callbacks_create(&callbacks, 30, &transport));
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  char uri[4096];
  test_errors(argv[1]);
  test_files(argv[1]);
  write_array(path_in(argv[1], "a.zarr", uri, sizeof uri));
  test_arrays(uri);
  test_batches(uri);
  test_parts(uri);
  test_wanted_arrays(uri);
  test_stores();
  test_packing();
  test_local_exchange();
  test_exchange_by_callbacks();
  printf("the C interface works\n");
  return 0;
}
