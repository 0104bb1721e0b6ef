/* A plug-in in C: y = factor * x for float32 tensors of any shape.

   cc -O3 -shared -fPIC -I"$(python -c 'import anyrt.plugin; print(*anyrt.plugin.__path__)')" scaled.c -o libscaled.so

   trt.get_plugin_registry().load_library("libscaled.so")
   creator = trt.get_plugin_registry().get_creator("Scaled", "1", "example") */

#include <stdlib.h>
#include <string.h>

#include "anyrt_plugin.h"

typedef struct Scaled {
  float factor;
} Scaled;

static void *create(const AnyrtField *fields, int32_t count) {
  Scaled *plugin = malloc(sizeof *plugin);
  plugin->factor = 1.0f;
  for (int32_t i = 0; i < count; i++) {
    if (strcmp(fields[i].name, "factor") || fields[i].type != ANYRT_FIELD_FLOAT32 || fields[i].count != 1) {
      free(plugin);
      return NULL;
    }
    memcpy(&plugin->factor, fields[i].data, sizeof plugin->factor);
  }
  return plugin;
}

static const char *error(void *self) {
  return self ? "sizes that were told" : "one field, factor, of one float32";
}

static int32_t output_count(void *self) { return 1; }

static int32_t output_types(void *self, const int32_t *inputs, int32_t n, int32_t *outputs, int32_t m) {
  outputs[0] = inputs[0];
  return 0;
}

static int32_t output_shapes(void *self, const AnyrtSizes *sizes, const AnyrtShape *inputs, int32_t n,
                             const AnyrtSize *values, int32_t k, AnyrtShape *outputs, int32_t m) {
  outputs[0] = inputs[0];
  return 0;
}

static int32_t enqueue(void *self, const AnyrtTensor *inputs, int32_t n, const AnyrtTensor *outputs, int32_t m,
                       const void *const *from, void *const *to, void *workspace, void *stream) {
  float factor = ((Scaled *)self)->factor;
  const float *x = from[0];
  float *y = to[0];
  int64_t count = 1;
  for (int32_t i = 0; i < inputs[0].rank; i++) count *= inputs[0].dims[i];
  for (int64_t i = 0; i < count; i++) y[i] = factor * x[i];
  return 0;
}

static const AnyrtField fields[] = {{"factor", NULL, ANYRT_FIELD_FLOAT32, 1}};

static const AnyrtPlugin plugins[] = {{
    .name = "Scaled",
    .version = "1",
    .space = "example",
    .fields = fields,
    .field_count = 1,
    .create = create,
    .destroy = free,
    .error = error,
    .output_count = output_count,
    .output_types = output_types,
    .output_shapes = output_shapes,
    .enqueue = enqueue,
}};

const AnyrtPluginTable *anyrt_plugin_table(void) {
  static const AnyrtPluginTable table = {ANYRT_PLUGIN_VERSION, sizeof(AnyrtPlugin), plugins, 1};
  return &table;
}
