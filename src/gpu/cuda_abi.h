/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_abi.h: the part of NVIDIA's driver interface that cuda.c uses, so that no header of CUDA is needed. Functions of
 * the driver never change under a name; those with _v2 have replaced others.
 */
#ifndef KEDGE_GPU_CUDA_ABI_H
#define KEDGE_GPU_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct cuda_context *cuda_context;
typedef struct cuda_module *cuda_module;
typedef struct cuda_function *cuda_function;
typedef struct cuda_stream *cuda_stream;
typedef struct cuda_event *cuda_event;

struct cuda_uuid {
	unsigned char bytes[16];
};

enum { /* results */
	CUDA_SUCCESS = 0,
	CUDA_INVALID_VALUE = 1,
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_NOT_INITIALIZED = 3,
	CUDA_NO_DEVICE = 100,
	CUDA_NO_BINARY = 209,
	CUDA_OPERATING_SYSTEM = 304,
	CUDA_NOT_FOUND = 500,
	CUDA_NOT_PERMITTED = 800,
	CUDA_NOT_SUPPORTED = 801,
};

enum { /* attributes of a pointer */
	CUDA_POINTER_MEMORY_TYPE = 2,
	CUDA_POINTER_IS_MANAGED = 8,
	CUDA_POINTER_DEVICE_ORDINAL = 9,
	CUDA_POINTER_RANGE_START = 11,
	CUDA_POINTER_RANGE_SIZE = 12,
};

enum { CUDA_MEMORY_HOST = 1, CUDA_MEMORY_DEVICE = 2 };

enum { /* attributes of a device */
	CUDA_DEVICE_PROCESSORS = 16,
	CUDA_DEVICE_MAJOR = 75,
	CUDA_DEVICE_MINOR = 76,
};

enum {
	CUDA_STREAM_NON_BLOCKING = 1,
	CUDA_PRIORITY_USUAL = 0,
	CUDA_PRIORITY_HIGHER = -1,
	CUDA_PRIORITY_HIGHEST = -1000, /* below what there is: the driver takes the highest */
	CUDA_EVENT_BLOCKING_SYNC = 1,
	CUDA_EVENT_NO_TIMING = 2,
	CUDA_HOST_PORTABLE = 1,
};

/* X(result-less name, symbol, arguments) */
#define CUDA_FUNCTIONS(X)                                                                                              \
	X(init, "cuInit", (unsigned flags))                                                                            \
	X(driver_version, "cuDriverGetVersion", (int *version))                                                        \
	X(error_name, "cuGetErrorName", (int error, const char **text))                                                \
	X(error_text, "cuGetErrorString", (int error, const char **text))                                              \
	X(device_count, "cuDeviceGetCount", (int *count))                                                              \
	X(device_get, "cuDeviceGet", (int *device, int ordinal))                                                       \
	X(device_name, "cuDeviceGetName", (char *name, int room, int device))                                          \
	X(device_memory, "cuDeviceTotalMem_v2", (size_t *bytes, int device))                                           \
	X(device_uuid, "cuDeviceGetUuid_v2", (struct cuda_uuid * uuid, int device))                                    \
	X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                           \
	X(context_retain, "cuDevicePrimaryCtxRetain", (cuda_context *context, int device))                             \
	X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                               \
	X(context_push, "cuCtxPushCurrent_v2", (cuda_context context))                                                 \
	X(context_pop, "cuCtxPopCurrent_v2", (cuda_context *context))                                                  \
	X(context_finish, "cuCtxSynchronize", (void))                                                                  \
	X(module_load, "cuModuleLoadData", (cuda_module *module, const void *image))                                   \
	X(module_unload, "cuModuleUnload", (cuda_module module))                                                       \
	X(module_function, "cuModuleGetFunction", (cuda_function *function, cuda_module module, const char *name))     \
	X(launch, "cuLaunchKernel",                                                                                    \
	  (cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,                \
	   unsigned block_y, unsigned block_z, unsigned shared, cuda_stream stream, void **args, void **extra))        \
	X(stream_create, "cuStreamCreateWithPriority", (cuda_stream *stream, unsigned flags, int priority))            \
	X(stream_destroy, "cuStreamDestroy_v2", (cuda_stream stream))                                                  \
	X(stream_follow, "cuStreamWaitEvent", (cuda_stream stream, cuda_event event, unsigned flags))                  \
	X(event_create, "cuEventCreate", (cuda_event *event, unsigned flags))                                          \
	X(event_record, "cuEventRecord", (cuda_event event, cuda_stream stream))                                       \
	X(event_wait, "cuEventSynchronize", (cuda_event event))                                                        \
	X(event_destroy, "cuEventDestroy_v2", (cuda_event event))                                                      \
	X(memory_alloc, "cuMemAlloc_v2", (uint64_t *address, size_t bytes))                                            \
	X(memory_free, "cuMemFree_v2", (uint64_t address))                                                             \
	X(host_alloc, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))                                 \
	X(host_free, "cuMemFreeHost", (void *memory))                                                                  \
	X(copy_in, "cuMemcpyHtoDAsync_v2", (uint64_t to, const void *from, size_t bytes, cuda_stream stream))          \
	X(copy_out, "cuMemcpyDtoHAsync_v2", (void *to, uint64_t from, size_t bytes, cuda_stream stream))               \
	X(copy_within, "cuMemcpyDtoDAsync_v2", (uint64_t to, uint64_t from, size_t bytes, cuda_stream stream))         \
	X(clear, "cuMemsetD8Async", (uint64_t at, unsigned char value, size_t bytes, cuda_stream stream))              \
	X(pointer, "cuPointerGetAttributes", (unsigned count, const int *attributes, void **values, uint64_t address))

struct cuda {
#define CUDA_MEMBER(name, symbol, args) int(*name) args;
	CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
};

#endif
