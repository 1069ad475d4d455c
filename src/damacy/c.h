// The C interface: files, arrays, batches and halo exchange for C11 and for languages that call C. Link the same
// libraries as for C++, with the C++ linker.
//
//   if (damacy_file_open("a.bin", "r", &file) != DAMACY_OK) puts(damacy_error_text());
//
// * Functions return DAMACY_OK or the status of an error, and no exception leaves them. An error keeps its text and its
//   fields for the calling thread until that thread's next error.
// * Handles are opaque. Functions that create one set `*out`, which stays unchanged after an error. The caller destroys
//   every handle once; destroying NULL does nothing. One handle may be destroyed before another that was made from it.
// * A NULL where a handle or a result is needed is an error of status DAMACY_INVAL. Arrays of no entries may be NULL.
// * Settings are set by name, so that new ones need no new function. Structures begin with their size.
// * Numbers of elements, offsets and indices are 64 bits wide; sizes of memory are size_t.
// * Memory is the host's, unless a function says otherwise.
// * The functions of this header keep their meaning within a minor version: what may change is in docs/deprecation.md.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DAMACY_API __attribute__((visibility("default")))
#else
#define DAMACY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// -- errors
// ------------------------------------------------------------------------------------------------------------

enum damacy_status {
  DAMACY_OK = 0,
  DAMACY_AGAIN = 1,     // not yet: a timeout passed
  DAMACY_INVAL = 2,     // an argument is wrong
  DAMACY_NOTFOUND = 3,  // nothing is there
  DAMACY_DTYPE = 4,
  DAMACY_RANK = 5,
  DAMACY_IO = 6,
  DAMACY_DECODE = 7,
  DAMACY_CUDA = 8,
  DAMACY_OOM = 9,
  DAMACY_SHUTDOWN = 10,
};

enum damacy_dtype {
  DAMACY_F32 = 0,
  DAMACY_BF16 = 1,
  DAMACY_F16 = 2,
  DAMACY_F64 = 3,
  DAMACY_U8 = 4,
  DAMACY_I8 = 5,
  DAMACY_U16 = 6,
  DAMACY_I16 = 7,
  DAMACY_U32 = 8,
  DAMACY_I32 = 9,
  DAMACY_U64 = 10,
  DAMACY_I64 = 11,
  DAMACY_BOOL = 12,
  DAMACY_COMPLEX64 = 13,  // from here on of stored arrays only, not of batches
  DAMACY_COMPLEX128 = 14,
  DAMACY_DATETIME64 = 15,
  DAMACY_TIMEDELTA64 = 16,
};

// Of this thread's last error: what happened, where and with which numbers, in one line. "" before the first error.
DAMACY_API const char* damacy_error_text(void);
DAMACY_API int damacy_error_status(void);  // DAMACY_OK before the first error
// A field of it; NULL if it is unknown. `name`: message reason stage array uri store key pointer, and of files path
// and backend. The text lives until this thread's next error.
DAMACY_API const char* damacy_error_field(const char* name);
// The same of a number; 0 and an unchanged `*value` if it is unknown, else 1. `name`: errno sample_index stream_index
// batch_id, and of files offset, length and transferred.
DAMACY_API int damacy_error_number(const char* name, int64_t* value);

DAMACY_API size_t damacy_dtype_size(int dtype);  // bytes of an element; 0 for a number that is no dtype

// -- files
// -------------------------------------------------------------------------------------------------------------

typedef struct damacy_file damacy_file;
typedef struct damacy_transfer damacy_transfer;

// `flags` as of Python's open: "r", "w", "r+", "a", "x".
DAMACY_API int damacy_file_open(const char* path, const char* flags, damacy_file** out);
// Closes the file after its running transfers, for which it waits.
DAMACY_API void damacy_file_destroy(damacy_file* file);
// Reads or writes `size` bytes at `offset` in parallel parts. `*count`: the bytes that were transferred, fewer than
// `size` only at the end of the file; it may be NULL.
DAMACY_API int damacy_file_read(damacy_file* file, void* data, size_t size, uint64_t offset, size_t* count);
DAMACY_API int damacy_file_write(damacy_file* file, const void* data, size_t size, uint64_t offset, size_t* count);
// The same without waiting. The memory stays in use until damacy_transfer_wait() has returned DAMACY_OK or an error
// other than DAMACY_AGAIN, or the transfer is destroyed.
DAMACY_API int damacy_file_begin_read(damacy_file* file, void* data, size_t size, uint64_t offset,
                                      damacy_transfer** out);
DAMACY_API int damacy_file_begin_write(damacy_file* file, const void* data, size_t size, uint64_t offset,
                                       damacy_transfer** out);
// DAMACY_AGAIN if the transfer has not ended after `timeout_s`; a negative number waits without limit.
DAMACY_API int damacy_transfer_wait(damacy_transfer* transfer, double timeout_s, size_t* count);
// Drops parts that have not started, and waits for the others.
DAMACY_API void damacy_transfer_destroy(damacy_transfer* transfer);

// -- arrays
// ------------------------------------------------------------------------------------------------------------

typedef struct damacy_array damacy_array;

// The zarr array at a path or uri, or level 0 of an image.
DAMACY_API int damacy_array_open(const char* uri, damacy_array** out);
DAMACY_API void damacy_array_destroy(damacy_array* array);
DAMACY_API int damacy_array_rank(const damacy_array* array, int* rank);
DAMACY_API int damacy_array_shape(const damacy_array* array, int64_t* shape);  // `rank` numbers
DAMACY_API int damacy_array_dtype(const damacy_array* array, int* dtype);
// The elements of the box [start, stop), row-major, without a cast. `size`: of `data`, exactly that of the elements.
DAMACY_API int damacy_array_read(const damacy_array* array, const int64_t* start, const int64_t* stop, void* data,
                                 size_t size);

// -- remote stores
// -----------------------------------------------------------------------------------------------------

typedef struct damacy_store_options damacy_store_options;

// How the stores below a prefix are reached. What is not set comes from the environment, as without options.
DAMACY_API int damacy_store_options_create(damacy_store_options** out);
DAMACY_API void damacy_store_options_destroy(damacy_store_options* options);
// A field of C++'s StoreOptions but `credentials`, and its value as text: endpoint "https://host", anonymous "true",
// attempts "3", deadline_s "30.5", absent_status "403,404". Each call with headers adds one, "Name: value".
DAMACY_API int damacy_store_options_set(damacy_store_options* options, const char* name, const char* value);
// For all uris below `prefix` (http, https, s3 or gs), of this process. Arrays that are open stay as they are.
DAMACY_API int damacy_mount(const char* prefix, const damacy_store_options* options);
DAMACY_API int damacy_unmount(const char* prefix);

// -- batches
// -----------------------------------------------------------------------------------------------------------

typedef struct damacy_options damacy_options;
typedef struct damacy_samples damacy_samples;
typedef struct damacy_pipeline damacy_pipeline;
typedef struct damacy_batch damacy_batch;
struct DLManagedTensor;  // of DLPack

// The settings of a pipeline, named and with the defaults of Python's Config. `batch_size` has no default.
DAMACY_API int damacy_options_create(damacy_options** out);
DAMACY_API void damacy_options_destroy(damacy_options* options);
// batch_size, n_batches, host_buffer_bytes, keep_bytes and all others that are integers; disk_cache_shared is 0 or 1.
DAMACY_API int damacy_options_set_integer(damacy_options* options, const char* name, int64_t value);
// pop_timeout_s.
DAMACY_API int damacy_options_set_number(damacy_options* options, const char* name, double value);
// device ("auto", "cpu", "cuda", "cuda:1"), dtype ("float32"), on_error ("raise", "skip", "fill"), verify ("needed",
// "whole"), thread_cores ("rank", "all"), shared_cache (a name), disk_cache (a directory).
DAMACY_API int damacy_options_set_text(damacy_options* options, const char* name, const char* value);
// Declares an array of the batches; samples then have exactly these parts. A name of "" is the only array of samples
// without names.
DAMACY_API int damacy_options_add_array(damacy_options* options, const char* name, int dtype);
// What is wanted of an array that was added: a field of C++'s ArraySpec and its value as text. dtype "uint8"; cf
// "true"; scale, offset "0.5" or one for each channel "0.5,1"; clip_low, clip_high, missing "0"; rounding "truncate",
// "nearest"; pad "edge", "reflect", "symmetric", "wrap", a number, or for each axis "y=reflect,x=0"; channels "0,2";
// channel_axis "c" or its place "0"; axes "z,y,x"; order "y,,x", where nothing is a new axis of 1.
DAMACY_API int damacy_options_set_array(damacy_options* options, const char* array, const char* field,
                                        const char* value);

DAMACY_API int damacy_samples_create(damacy_samples** out);
DAMACY_API void damacy_samples_destroy(damacy_samples* samples);
// Adds a sample: the box [start, stop) of an array. `step`: NULL for 1 on every axis.
DAMACY_API int damacy_samples_add(damacy_samples* samples, const char* uri, int rank, const int64_t* start,
                                  const int64_t* stop, const int64_t* step);
// Adds a sample without a box; damacy_samples_add_part() then adds the box of each array of the batch to the last one.
DAMACY_API int damacy_samples_add_empty(damacy_samples* samples);
DAMACY_API int damacy_samples_add_part(damacy_samples* samples, const char* name, const char* uri, int rank,
                                       const int64_t* start, const int64_t* stop, const int64_t* step);

// Thread-safe.
DAMACY_API int damacy_pipeline_create(const damacy_options* options, damacy_pipeline** out);
// Closes it. Batches stay valid.
DAMACY_API void damacy_pipeline_destroy(damacy_pipeline* pipeline);
// Takes all samples and leaves `samples` empty, also after an error.
DAMACY_API int damacy_pipeline_push(damacy_pipeline* pipeline, damacy_samples* samples);
// The next batch. DAMACY_AGAIN if none is due after `timeout_s`; a negative number waits as pop_timeout_s says.
DAMACY_API int damacy_pipeline_pop(damacy_pipeline* pipeline, double timeout_s, damacy_batch** out);
DAMACY_API int damacy_pipeline_flush(damacy_pipeline* pipeline);  // completes the batch that is not full
// Later calls fail with DAMACY_SHUTDOWN, except damacy_pipeline_counter(), which gives the last values.
DAMACY_API int damacy_pipeline_close(damacy_pipeline* pipeline);
// A counter of Python's Stats: "batches_emitted", "chunks_decoded", "bytes_read" …
DAMACY_API int damacy_pipeline_counter(const damacy_pipeline* pipeline, const char* name, int64_t* value);

// `name`: the array; NULL for the only one. `*rank` counts the axis of samples, which is the first one.
DAMACY_API int damacy_batch_rank(const damacy_batch* batch, const char* name, int* rank);
DAMACY_API int damacy_batch_shape(const damacy_batch* batch, const char* name, int64_t* shape);  // `rank` numbers
DAMACY_API int damacy_batch_dtype(const damacy_batch* batch, const char* name, int* dtype);
// The first element, in row-major order, on the batch's device. Valid until the batch is destroyed.
DAMACY_API int damacy_batch_data(const damacy_batch* batch, const char* name, const void** data);
DAMACY_API int damacy_batch_device(const damacy_batch* batch, int* type, int* index);  // DLPack's numbers
// Whether the row has its sample; 0 where on_error "fill" replaced one that failed.
DAMACY_API int damacy_batch_row_valid(const damacy_batch* batch, int64_t row, int* valid);
DAMACY_API int damacy_batch_row_index(const damacy_batch* batch, int64_t row, int64_t* index);  // in the stream
// A view as a tensor of DLPack, which the caller frees with its deleter; it may outlive the batch.
DAMACY_API int damacy_batch_to_dlpack(const damacy_batch* batch, const char* name, struct DLManagedTensor** out);
DAMACY_API void damacy_batch_destroy(damacy_batch* batch);  // returns its memory to the pipeline

// -- halo exchange
// -----------------------------------------------------------------------------------------------------

typedef struct damacy_halo_field damacy_halo_field;
typedef struct damacy_halo_specs damacy_halo_specs;
typedef struct damacy_halo_transformer damacy_halo_transformer;
typedef struct damacy_halo_plan damacy_halo_plan;
typedef struct damacy_halo_transport damacy_halo_transport;
typedef struct damacy_halo_exchanger damacy_halo_exchanger;
typedef struct damacy_halo_token damacy_halo_token;

enum damacy_halo_wire { DAMACY_HALO_NDSL = 0, DAMACY_HALO_NATIVE = 1 };
enum damacy_halo_corners { DAMACY_HALO_DIRECT = 0, DAMACY_HALO_NO_CORNERS = 1, DAMACY_HALO_SEQUENTIAL = 2 };
enum damacy_halo_side {
  DAMACY_HALO_WEST = 0,
  DAMACY_HALO_EAST = 1,
  DAMACY_HALO_NORTH = 2,
  DAMACY_HALO_SOUTH = 3,
  DAMACY_HALO_NORTHWEST = 4,
  DAMACY_HALO_NORTHEAST = 5,
  DAMACY_HALO_SOUTHWEST = 6,
  DAMACY_HALO_SOUTHEAST = 7,
};

// The layout of an allocation with halo. `dims`: a name of each dimension; "i" and "j" are horizontal. `strides`: in
// bytes; NULL for a dense field in C order. `origin` and `extent`: the compute cells.
DAMACY_API int damacy_halo_field_create(int rank, const char* const* dims, int dtype, const int64_t* shape,
                                        const int64_t* strides, const int64_t* origin, const int64_t* extent,
                                        damacy_halo_field** out);
DAMACY_API void damacy_halo_field_destroy(damacy_halo_field* field);
// The box to send (`interior` not 0) or to receive at a side, absolute in the allocation; `rank` numbers each.
DAMACY_API int damacy_halo_field_box(const damacy_halo_field* field, int side, int64_t width, int interior,
                                     int64_t* start, int64_t* stop);

// Packing and unpacking for callers who communicate themselves: one specification for each array and peer.
DAMACY_API int damacy_halo_specs_create(damacy_halo_specs** out);
DAMACY_API void damacy_halo_specs_destroy(damacy_halo_specs* specs);
// `rotation`: clockwise quarter turns of the data on its way.
DAMACY_API int damacy_halo_specs_add(damacy_halo_specs* specs, const damacy_halo_field* field,
                                     const int64_t* pack_start, const int64_t* pack_stop, int rotation,
                                     const int64_t* unpack_start, const int64_t* unpack_stop);
// `y`: NULL, or the second components of vectors whose first ones are `x`. `threads`: of a call, 1 or more.
DAMACY_API int damacy_halo_transformer_create(const damacy_halo_specs* x, const damacy_halo_specs* y, int wire,
                                              int threads, damacy_halo_transformer** out);
DAMACY_API void damacy_halo_transformer_destroy(damacy_halo_transformer* transformer);
// The first element of each of `count` allocations, halo included. `y`: NULL without vectors.
DAMACY_API int damacy_halo_pack(damacy_halo_transformer* transformer, int count, const void* const* x,
                                const void* const* y);
DAMACY_API int damacy_halo_unpack(damacy_halo_transformer* transformer, int count, void* const* x, void* const* y);
// The message that pack has written, and the one that unpack reads. They live as long as the transformer.
DAMACY_API int damacy_halo_pack_buffer(damacy_halo_transformer* transformer, void** data, size_t* size);
DAMACY_API int damacy_halo_unpack_buffer(damacy_halo_transformer* transformer, void** data, size_t* size);

// What one rank sends and receives. Fields, vectors and axes are added first; one of the compile functions comes last.
DAMACY_API int damacy_halo_plan_create(damacy_halo_plan** out);
DAMACY_API void damacy_halo_plan_destroy(damacy_halo_plan* plan);
DAMACY_API int damacy_halo_plan_add_field(damacy_halo_plan* plan, const damacy_halo_field* field);
// The fields number `x` and `y` are the components of a vector.
DAMACY_API int damacy_halo_plan_add_vector(damacy_halo_plan* plan, int x, int y);
// A decomposed dimension: the cells of each of its blocks, and the width of the halo before and after a block. Ranks
// run fastest along the axis that was added last.
DAMACY_API int damacy_halo_plan_add_axis(damacy_halo_plan* plan, const char* dim, int blocks, const int64_t* cells,
                                         int periodic, int64_t before, int64_t after);
DAMACY_API int damacy_halo_plan_set_wire(damacy_halo_plan* plan, int wire);  // DAMACY_HALO_NATIVE unless set
DAMACY_API int damacy_halo_plan_compile_grid(damacy_halo_plan* plan, int corners, int64_t rank);
// Six tiles of layout x layout ranks.
DAMACY_API int damacy_halo_plan_compile_cubed_sphere(damacy_halo_plan* plan, int64_t layout, int64_t rank,
                                                     int64_t width);

// How messages travel, as a library like MPI does it. Functions return 0, or another number for an error. Messages of
// one sender, receiver and tag arrive in the order in which they were sent. `tag`: 0 to 32767. A rank's functions are
// called on the threads that call its exchanger.
typedef struct damacy_halo_callbacks {
  size_t struct_size;  // sizeof(damacy_halo_callbacks)
  void* context;       // passed to each function
  // Start to send or to receive, and give a request; the memory stays valid until the request has ended.
  int (*send)(void* context, int64_t rank, int64_t peer, int tag, const void* data, size_t size, void** request);
  int (*receive)(void* context, int64_t rank, int64_t peer, int tag, void* data, size_t size, void** request);
  // Waits until the request has ended, and frees it, also after an error.
  int (*wait)(void* context, void* request);
  // Sets `ended` to 1 if the request has ended, else to 0, without waiting. Frees it if it has ended or after an error.
  int (*test)(void* context, void* request, int* ended);
  // Ends a request early and frees it. Another number than 0, for a send: its memory may still be read, and is never
  // freed. The memory of a receive is not used after the call.
  int (*cancel)(void* context, void* request);
} damacy_halo_callbacks;

// For `ranks` ranks of this process. A rank that waits longer than `timeout_s` for a message fails with DAMACY_IO.
DAMACY_API int damacy_halo_local_create(int ranks, double timeout_s, damacy_halo_transport** out);
// The structure is copied; what `context` points to outlives all exchangers. An exchanger whose peers do not create
// theirs within `timeout_s`, or create one without links to its rank, fails with DAMACY_IO.
DAMACY_API int damacy_halo_callbacks_create(const damacy_halo_callbacks* callbacks, double timeout_s,
                                            damacy_halo_transport** out);
DAMACY_API void damacy_halo_transport_destroy(damacy_halo_transport* transport);

// Packs, sends, receives and unpacks. One thread at a time uses an exchanger. If `create` fails after it has begun to
// send, a transport of callbacks refuses other exchangers, which might receive what was left behind: make another one
// on all ranks, with MPI over another communicator.
DAMACY_API int damacy_halo_exchanger_create(const damacy_halo_plan* plan, damacy_halo_transport* transport,
                                            damacy_halo_exchanger** out);
DAMACY_API void damacy_halo_exchanger_destroy(damacy_halo_exchanger* exchanger);
// `arrays`: the first element of each field's allocation. The halos are valid after the call.
DAMACY_API int damacy_halo_exchange(damacy_halo_exchanger* exchanger, int count, void* const* arrays);
// The same in two steps; finish destroys the token, also after an error. Exchanges with sequential corners are finished
// in the order of their starts.
DAMACY_API int damacy_halo_start(damacy_halo_exchanger* exchanger, int count, void* const* arrays,
                                 damacy_halo_token** out);
DAMACY_API int damacy_halo_finish(damacy_halo_exchanger* exchanger, damacy_halo_token* token);

#ifdef __cplusplus
}  // extern "C"
#endif
