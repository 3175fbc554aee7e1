/* Tables of embeddings by key: rows that are found, made, updated and evicted without Python's lock.

   A table is cut into shards by the hash of the key. A shard has its own lock, an index with open addressing (linear probing,
   deletion by shifting back), and rows in chunks. A batch of keys is sorted by shard first; then each shard is locked once per
   batch, by whichever thread takes it. There is no lock for the whole table, and results do not depend on the number of threads.

   A row is contiguous: the values, then the slots of optimizers. Beside it stand its frequency, the step of its last use (the
   version), when it was last used and last changed. With a capacity, a full shard evicts a sixteenth of its rows at once, those
   used least recently or least often; with a file, evicted rows go there and come back when they are used. A table can also
   leave that to its caller (`outside`): it evicts nothing itself, `take` removes the rows that are too many, and `give` puts
   them back before a batch that needs them (`places`). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_rules.h"

enum { CHUNK = 256, AHEAD = 12, AT_ONCE = 16, MOST_HASHES = 8, MOST_KEPT = 1 << 16 };
enum { EMPTY = -1, WAITING = -2, ON_DISK = -3 };           /* what an index entry has in place of a row */
enum { CONSTANT, UNIFORM, NORMAL, TRUNCATED, POOL };       /* how rows begin */
enum { ADMIT_ALL, ADMIT_COUNTED, ADMIT_BLOOM, ADMIT_PROBABLY };
enum { LEAST_RECENT, LEAST_FREQUENT };

typedef struct { int64_t key; int32_t row; uint32_t count; } Entry;    /* count: of a waiting key, or the place on disk */
typedef struct {
    int64_t key, version, frequency, used, changed;
    char *text;                                            /* the key itself, where keys are strings */
    uint32_t length, batch;
    int32_t place, number;                                 /* among the distinct rows of the batch; of the row, or FREE */
} Row;                                                     /* a line of the cache, in front of the numbers of the row */
typedef struct { int64_t key, changed; char *text; uint32_t length; } Gone;

typedef struct {
    pthread_mutex_t lock;
    Entry *entries;
    float **chunks;                                        /* each has CHUNK rows */
    void **blocks;                                         /* what chunks are allocated in */
    int32_t *free_rows;
    uint32_t *counters, *free_places;
    Gone *gone;
    int64_t mask, filled, row_count, chunk_count, chunk_room, block_count, block_room, free_count, free_room, live, waiting, on_disk, clock, place_count, place_room,
        gone_count, gone_room;
    uint64_t random;
    uint32_t batch;
    char *room;                                            /* one record of the file */
} Shard;

typedef struct {
    int64_t dim, stride, shard_count, capacity, policy, seed, admission, threshold, bloom_size, bloom_hashes, is_text, start,
        pool_rows;
    double start_a, start_b, probability;
    float refused;                                         /* what keys that are not admitted yet look like */
    float *pool, *row_start;                               /* row_start: what a whole new row begins with */
    int64_t epoch, tracks_gone;
    int file, outside;                                     /* outside: the caller keeps the rows that leave */
    uint32_t file_places;
    Shard *shards;
    struct Plan *recent;                                   /* of the last lookup, or NULL */
} Table;

typedef struct { int64_t key; const char *text; uint32_t length; uint64_t hash; } Key;

/* The keys of a batch by shard, their positions in the batch, and where the keys of each shard begin. An update mostly follows a
   lookup of the same keys: it takes over the plan of the lookup, with the numbers of the rows that were found. */
typedef struct Plan { int64_t count, *order, *first; Key *keys; int32_t *rows; } Plan;
enum { FREE = -1, HEAD = sizeof(Row) / sizeof(float), HUGE_PAGE = 1 << 21 };

static Processor here;

static inline uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static uint64_t mix_text(const char *s, uint32_t length)
{
    uint64_t hash = mix(length);
    for (; length >= 8; s += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, s, 8);
        hash = mix(hash ^ word);
    }
    uint64_t rest = 0;
    memcpy(&rest, s, length);
    return mix(hash ^ rest);
}

/* -- how rows begin ------------------------------------------------------------------------------------------------------- */
static inline double unit(uint64_t bits) { return ((double)(bits >> 11) + 0.5) * 0x1p-53; }

static double gaussian(uint64_t stream, uint64_t number)
{
    const uint64_t a = mix(stream + 2 * number), b = mix(stream + 2 * number + 1);
    return sqrt(-2 * log(unit(a))) * cos(6.283185307179586 * unit(b));
}

static void begin(const Table *t, int64_t key, float *to)
{
    const uint64_t stream = mix(mix((uint64_t)t->seed) ^ (uint64_t)key);
    if (t->start == POOL) {
        memcpy(to, t->pool + (int64_t)(stream % (uint64_t)t->pool_rows) * t->dim, (size_t)t->dim * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < t->dim; i++) {
        double x = 0;
        if (t->start == UNIFORM)
            x = t->start_a + (t->start_b - t->start_a) * unit(mix(stream + (uint64_t)i));
        else if (t->start == NORMAL)
            x = t->start_a + t->start_b * gaussian(stream, (uint64_t)i);
        else if (t->start == TRUNCATED) {
            for (uint64_t again = 0; again < 64; again++) {
                x = gaussian(stream, (uint64_t)i + (uint64_t)t->dim * again);
                if (fabs(x) < 2)
                    break;
            }
            x = t->start_a + t->start_b * (fabs(x) < 2 ? x : 0);
        } else
            x = t->start_a;
        to[i] = (float)x;
    }
}

/* -- the index ------------------------------------------------------------------------------------------------------------ */
static inline int64_t record(const Table *t) { return HEAD + t->stride; }

static inline Row *row_of(const Table *t, const Shard *s, int64_t number)
{
    return (Row *)(s->chunks[number / CHUNK] + number % CHUNK * record(t));
}

static inline float *numbers_of(const Row *row) { return (float *)(row + 1); }

static inline int same(const Table *t, const Shard *s, const Entry *e, const Key *k)
{
    if (e->key != k->key || !t->is_text || e->row < 0)
        return e->key == k->key;
    const Row *row = row_of(t, s, e->row);
    return row->length == k->length && !memcmp(row->text, k->text, k->length);
}

static inline uint64_t hash_of(const Table *t, int64_t key) { return t->is_text ? (uint64_t)key : mix((uint64_t)key); }

/* The entry of a key, or the empty one where it would be. */
static inline Entry *find(const Table *t, const Shard *s, const Key *k)
{
    int64_t at = (int64_t)(k->hash & (uint64_t)s->mask);
    while (s->entries[at].row != EMPTY && !same(t, s, &s->entries[at], k))
        at = (at + 1) & s->mask;
    return &s->entries[at];
}

static void drop(const Table *t, Shard *s, Entry *e)
{
    int64_t hole = e - s->entries, at = hole;
    for (;;) {
        at = (at + 1) & s->mask;
        if (s->entries[at].row == EMPTY)
            break;
        const int64_t home = (int64_t)(hash_of(t, s->entries[at].key) & (uint64_t)s->mask);
        if (((at - home) & s->mask) >= ((at - hole) & s->mask)) {
            s->entries[hole] = s->entries[at];
            hole = at;
        }
    }
    s->entries[hole].row = EMPTY;
    s->filled--;
}

/* Memory, on huge pages if it is large and the system has them: it is read in no order. */
static void *aligned(size_t size)
{
    const size_t line = size >= HUGE_PAGE ? HUGE_PAGE : 64;
    void *made = aligned_alloc(line, (size + line - 1) / line * line);
#ifdef MADV_HUGEPAGE
    if (made != NULL && line == HUGE_PAGE)
        madvise(made, size, MADV_HUGEPAGE);
#endif
    return made;
}

/* Room for one more entry; 0 without memory. Entries move. */
static int make_entry_room(const Table *t, Shard *s)
{
    if (s->entries != NULL && (s->filled + 1) * 4 <= (s->mask + 1) * 3)
        return 1;
    const int64_t size = s->entries == NULL ? 64 : (s->mask + 1) * 2;
    Entry *made = aligned((size_t)size * sizeof *made);
    if (made == NULL)
        return 0;
    for (int64_t i = 0; i < size; i++)
        made[i].row = EMPTY;
    for (int64_t i = 0; s->entries != NULL && i <= s->mask; i++) {
        if (s->entries[i].row == EMPTY)
            continue;
        int64_t at = (int64_t)(hash_of(t, s->entries[i].key) & (uint64_t)(size - 1));
        while (made[at].row != EMPTY)
            at = (at + 1) & (size - 1);
        made[at] = s->entries[i];
    }
    free(s->entries);
    s->entries = made;
    s->mask = size - 1;
    return 1;
}

static int grow(void *array, int64_t *room, int64_t wanted, size_t size)
{
    void **given = array;
    if (wanted <= *room)
        return 1;
    const int64_t to = *room < 16 ? 32 : *room * 2;
    void *made = realloc(*given, (size_t)(to > wanted ? to : wanted) * size);
    if (made == NULL)
        return 0;
    *given = made;
    *room = to > wanted ? to : wanted;
    return 1;
}

static void *new_block(Shard *s, size_t size)
{
    if (!grow(&s->blocks, &s->block_room, s->block_count + 1, sizeof *s->blocks))
        return NULL;
    void *made = aligned(size);
    if (made != NULL)
        s->blocks[s->block_count++] = made;
    return made;
}

/* More chunks: one, or as many as fill a huge page if the shard has that many already. */
static int add_chunks(const Table *t, Shard *s)
{
    const int64_t size = CHUNK * record(t) * (int64_t)sizeof(float);
    const int64_t fit = s->chunk_count * size < HUGE_PAGE ? 1 : HUGE_PAGE / size;
    const int64_t count = fit > 1 ? fit : 1;
    if (!grow(&s->chunks, &s->chunk_room, s->chunk_count + count, sizeof *s->chunks))
        return 0;
    char *block = new_block(s, fit > 1 ? HUGE_PAGE : (size_t)size);
    if (block == NULL)
        return 0;
    for (int64_t i = 0; i < count; i++)
        s->chunks[s->chunk_count++] = (float *)(block + i * size);
    return 1;
}

static int32_t take_row(const Table *t, Shard *s)
{
    if (s->free_count)
        return s->free_rows[--s->free_count];
    if (s->row_count == s->chunk_count * CHUNK && !add_chunks(t, s))
        return -1;
    row_of(t, s, s->row_count)->number = FREE;
    return (int32_t)s->row_count++;
}

/* -- leaving: removal, eviction, the file ---------------------------------------------------------------------------------- */
static void note_gone(const Table *t, Shard *s, const Row *row)
{
    if (!t->tracks_gone || !grow(&s->gone, &s->gone_room, s->gone_count + 1, sizeof *s->gone))
        return;
    char *text = NULL;
    if (t->is_text && (text = malloc(row->length + 1)) != NULL)
        memcpy(text, row->text, row->length);
    s->gone[s->gone_count++] = (Gone){row->key, t->epoch, text, row->length};
}

static void release_row(const Table *t, Shard *s, int32_t row)
{
    free(row_of(t, s, row)->text);
    row_of(t, s, row)->text = NULL;
    row_of(t, s, row)->number = FREE;
    if (grow(&s->free_rows, &s->free_room, s->free_count + 1, sizeof *s->free_rows))
        s->free_rows[s->free_count++] = row;
    s->live--;
}

typedef struct { int64_t version, frequency, changed; } Kept;     /* what the file has of a row beside its numbers */

static size_t record_size(const Table *t) { return sizeof(Kept) + (size_t)t->stride * sizeof(float); }

static int spill(Table *t, Shard *s, Entry *e)
{
    const Row *row = row_of(t, s, e->row);
    uint32_t place;
    if (s->place_count)
        place = s->free_places[--s->place_count];
    else
        place = __atomic_fetch_add(&t->file_places, 1, __ATOMIC_RELAXED);
    const Kept kept = {row->version, row->frequency, row->changed};
    memcpy(s->room, &kept, sizeof kept);
    memcpy(s->room + sizeof kept, numbers_of(row), (size_t)t->stride * sizeof(float));
    if (pwrite(t->file, s->room, record_size(t), (off_t)place * (off_t)record_size(t)) != (ssize_t)record_size(t))
        return 0;
    release_row(t, s, e->row);
    e->row = ON_DISK;
    e->count = place;
    s->on_disk++;
    return 1;
}

static int read_record(const Table *t, Shard *s, uint32_t place, Kept *kept)
{
    if (pread(t->file, s->room, record_size(t), (off_t)place * (off_t)record_size(t)) != (ssize_t)record_size(t))
        return 0;
    memcpy(kept, s->room, sizeof *kept);
    return 1;
}

static int free_place(const Table *t, Shard *s, uint32_t place)
{
    if (t->outside) {
        s->on_disk--;
        return 1;
    }
    if (!grow(&s->free_places, &s->place_room, s->place_count + 1, sizeof *s->free_places))
        return 0;
    s->free_places[s->place_count++] = place;
    s->on_disk--;
    return 1;
}

typedef struct { int64_t first, second; int32_t row; } Leaving;        /* what decides when a row leaves, in order */

static inline int sooner(const Leaving *a, const Leaving *b)
{
    return a->first != b->first ? a->first < b->first : a->second < b->second;
}

/* Puts the `count` rows that leave first to the front of `order`. */
static void select_first(Leaving *order, int64_t size, int64_t count)
{
    int64_t low = 0, high = size - 1;
    while (low < high) {
        const Leaving pivot = order[(low + high) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (sooner(&order[i], &pivot))
                i++;
            while (sooner(&pivot, &order[j]))
                j--;
            if (i <= j) {
                const Leaving other = order[i];
                order[i++] = order[j];
                order[j--] = other;
            }
        }
        if (count - 1 <= j)
            high = j;
        else if (count - 1 >= i)
            low = i;
        else
            return;
    }
}

static int64_t shard_capacity(const Table *t) { return t->capacity / t->shard_count; }

/* The rows of a shard in an array, the `*count` that leave first in front; NULL without memory. */
static Leaving *leave_first(const Table *t, const Shard *s, int64_t *count)
{
    Leaving *order = malloc((size_t)(s->live + 1) * sizeof *order);
    int64_t size = 0;
    if (order == NULL)
        return NULL;
    for (int64_t i = 0; i < s->row_count; i++) {
        const Row *row = row_of(t, s, i);
        if (row->number != FREE)
            order[size++] = (Leaving){t->policy == LEAST_FREQUENT ? row->frequency : 0, row->used, (int32_t)i};
    }
    *count = *count < size ? *count : size;
    select_first(order, size, *count);
    return order;
}

static Entry *entry_of(const Table *t, const Shard *s, const Row *row)
{
    const Key key = {row->key, row->text, row->length, hash_of(t, row->key)};
    return find(t, s, &key);
}

/* Evicts `count` rows; 0 without memory, -1 if the file cannot be written. */
static int evict_some(Table *t, Shard *s, int64_t count)
{
    Leaving *order = leave_first(t, s, &count);
    if (order == NULL)
        return 0;
    int done = 1;
    for (int64_t i = 0; i < count && done == 1; i++) {
        const Row *row = row_of(t, s, order[i].row);
        Entry *e = entry_of(t, s, row);
        if (t->file >= 0)
            done = spill(t, s, e) ? 1 : -1;
        else {
            note_gone(t, s, row);
            release_row(t, s, order[i].row);
            drop(t, s, e);
        }
    }
    free(order);
    return done;
}

/* How many rows must leave a shard, with those that leave together, so that one more fits. */
static int64_t too_many(const Table *t, const Shard *s)
{
    const int64_t most = shard_capacity(t);
    return !t->capacity || s->live < most ? 0 : s->live - most + (most / AT_ONCE ? most / AT_ONCE : 1);
}

static int make_room(Table *t, Shard *s)
{
    const int64_t count = t->outside ? 0 : too_many(t, s);
    return count ? evict_some(t, s, count) : 1;
}

/* -- coming: admission, new rows ------------------------------------------------------------------------------------------- */
static int bloom_admits(const Table *t, Shard *s, const Key *k)
{
    uint32_t least = UINT32_MAX, *at[MOST_HASHES];
    uint64_t hash = mix(k->hash ^ 0x5bd1e995);
    for (int64_t i = 0; i < t->bloom_hashes; i++, hash = mix(hash)) {
        at[i] = &s->counters[hash % (uint64_t)t->bloom_size];
        least = *at[i] < least ? *at[i] : least;
    }
    if (least + 1 >= (uint64_t)t->threshold)
        return 1;
    for (int64_t i = 0; i < t->bloom_hashes; i++)
        if (*at[i] == least)
            ++*at[i];
    return 0;
}

/* Whether a key that has no row gets one now; -1 without memory. The entry may be that of a waiting key. */
static int admits(const Table *t, Shard *s, const Key *k, Entry **e)
{
    if (t->admission == ADMIT_ALL || (t->admission == ADMIT_COUNTED && t->threshold <= 1))
        return 1;
    if (t->admission == ADMIT_BLOOM)
        return bloom_admits(t, s, k);
    if (t->admission == ADMIT_PROBABLY) {
        s->random = mix(s->random);
        return unit(s->random) < t->probability;
    }
    if ((*e)->row == WAITING)
        return ++(*e)->count >= (uint64_t)t->threshold;
    if (!make_entry_room(t, s))
        return -1;
    *e = find(t, s, k);
    **e = (Entry){k->key, WAITING, 1};
    s->filled++;
    s->waiting++;
    return 0;
}

static Row *fill_entry(const Table *t, Shard *s, const Key *k, Entry *e, int32_t at)
{
    Row *row = row_of(t, s, at);
    char *text = NULL;
    if (t->is_text) {
        text = malloc(k->length + 1);
        if (text == NULL)
            return NULL;
        memcpy(text, k->text, k->length);
    }
    if (e->row == EMPTY)
        s->filled++;
    else if (e->row == WAITING)
        s->waiting--;
    *e = (Entry){k->key, at, 0};
    *row = (Row){.key = k->key, .text = text, .length = k->length, .number = at, .changed = t->epoch};
    s->live++;
    return row;
}

/* A new row for a key; NULL without memory or if the file fails. */
static Row *new_row(Table *t, Shard *s, const Key *k, int may_evict)
{
    if (may_evict && make_room(t, s) != 1)
        return NULL;
    const int32_t at = take_row(t, s);
    if (at < 0 || !make_entry_room(t, s))
        return NULL;
    Row *row = fill_entry(t, s, k, find(t, s, k), at);
    if (row == NULL)
        return NULL;
    float *to = numbers_of(row);
    memcpy(to, t->row_start, (size_t)t->stride * sizeof *to);
    begin(t, k->key, to);
    return row;
}

/* Fills the row `at` of an entry from a record; NULL without memory. */
static Row *put_back(const Table *t, Shard *s, const Key *k, Entry *e, int32_t at, const char *record)
{
    Kept kept;
    Row *row = fill_entry(t, s, k, e, at);
    if (row == NULL)
        return NULL;
    memcpy(&kept, record, sizeof kept);
    memcpy(numbers_of(row), record + sizeof kept, (size_t)t->stride * sizeof(float));
    row->version = kept.version;
    row->frequency = kept.frequency;
    row->changed = kept.changed;
    row->used = ++s->clock;
    return row;
}

/* The row of an entry on disk, brought back; NULL on failure. */
static Row *fetch_row(Table *t, Shard *s, const Key *k, int may_evict)
{
    if (may_evict && make_room(t, s) != 1)
        return NULL;
    Entry *e = find(t, s, k);
    const uint32_t place = e->count;
    Kept kept;
    const int32_t at = take_row(t, s);
    if (at < 0 || !read_record(t, s, place, &kept) || !free_place(t, s, place))
        return NULL;
    return put_back(t, s, k, e, at, s->room);
}

/* -- batches --------------------------------------------------------------------------------------------------------------- */
enum { LOOKUP, PEEK, APPLY, READ, WRITE, REMOVE, PREFETCH, PLACES, GIVE };

typedef struct {
    Table *table;
    int work;
    const Key *keys;                      /* these four are those of the plan */
    const int64_t *order, *first;
    int32_t *rows;                        /* found by LOOKUP, FREE if none; given to APPLY, or NULL */
    float *out;
    const float *in;
    int64_t step, offset, width, from;    /* from: the shard that the first item takes */
    int64_t *versions, *frequencies;      /* in WRITE, or NULL */
    int64_t *places, first_place;         /* in PLACES and GIVE */
    uint8_t *found;
    Rule rule;
    int64_t slots[MOST_SLOTS];
    double numbers[NUMBERS];
    int counts;
    int64_t done, failed;
} Batch;

static inline const Row *touch(Shard *s, Row *row, int64_t step, int counts)
{
    row->used = ++s->clock;
    row->frequency += counts;
    if (step >= 0)
        row->version = step;
    return row;
}

static inline void load_entry(const Shard *s, const Key *k) { __builtin_prefetch(&s->entries[k->hash & (uint64_t)s->mask]); }

/* Starts loading the row of the i-th key, `bytes` of it. The row that a plan has may be that of another key now. A lookup
   writes down which row it is, so that it need not be searched again. */
static inline void load_row(const Batch *b, const Shard *s, int64_t i, int64_t bytes)
{
    int64_t number;
    if (b->work == APPLY && b->rows != NULL)
        number = b->rows[i];
    else {
        int64_t at = (int64_t)(b->keys[i].hash & (uint64_t)s->mask);
        while (s->entries[at].row != EMPTY && s->entries[at].key != b->keys[i].key)
            at = (at + 1) & s->mask;
        number = s->entries[at].row;
        if (b->rows != NULL)
            b->rows[i] = (int32_t)number;
    }
    if (number < 0 || number >= s->row_count)
        return;
    const char *row = (const char *)row_of(b->table, s, number);
    for (int64_t at = 0; at < bytes && at < 512; at += 64)
        __builtin_prefetch(row + at, 1);
}

/* Called for each key of a shard: starts loading the entry of a key that is due later, and the row of one that is due sooner.
   Their waits for memory overlap with each other and with the work on the keys before them. */
static inline void load_ahead(const Batch *b, const Shard *s, int64_t i, int64_t from, int64_t to, int64_t columns)
{
    const int64_t bytes = (HEAD + columns) * (int64_t)sizeof(float);
    const int known = b->work == APPLY && b->rows != NULL;
    for (int64_t j = from; i == from && !known && j < to && j < from + 2 * AHEAD; j++)
        load_entry(s, &b->keys[j]);
    for (int64_t j = from; i == from && j < to && j < from + AHEAD; j++)
        load_row(b, s, j, bytes);
    if (!known && i + 2 * AHEAD < to)
        load_entry(s, &b->keys[i + 2 * AHEAD]);
    if (i + AHEAD < to)
        load_row(b, s, i + AHEAD, bytes);
}

/* The row that was found before for the i-th key, if it is still the row of that key; NULL otherwise. */
static inline Row *planned(const Batch *b, const Shard *s, int64_t i)
{
    if (b->rows == NULL || b->table->is_text || b->rows[i] < 0 || b->rows[i] >= s->row_count)
        return NULL;
    Row *row = row_of(b->table, s, b->rows[i]);
    return row->number != FREE && row->key == b->keys[i].key ? row : NULL;
}

/* The row of a key, if it has one or gets one; *refused if it is not admitted; NULL otherwise. */
static Row *resolve(Batch *b, Shard *s, const Key *k, int creates, int *refused)
{
    Table *t = b->table;
    Entry *e = find(t, s, k);
    *refused = 0;
    if (e->row >= 0)
        return row_of(t, s, e->row);
    Row *row;
    if (e->row == ON_DISK)
        row = fetch_row(t, s, k, b->work != APPLY);
    else if (!creates) {
        *refused = 1;
        return NULL;
    } else {
        const int admitted = b->work == WRITE ? 1 : b->work == APPLY ? t->admission == ADMIT_ALL : admits(t, s, k, &e);
        if (admitted == 0) {
            *refused = 1;
            return NULL;
        }
        const int64_t seen = e->row == WAITING ? e->count : 1;
        row = admitted < 0 ? NULL : new_row(t, s, k, b->work != APPLY);
        if (row != NULL)
            row->frequency = seen > 1 ? seen - 1 : 0;
    }
    if (row == NULL)
        __atomic_store_n(&b->failed, errno == 0 ? ENOMEM : errno, __ATOMIC_RELAXED);
    return row;
}

/* Rows are short: a call would take longer than the copy. */
static inline void copy_row(float *restrict to, const float *restrict from, int64_t n)
{
    for (; n >= 8; n -= 8, to += 8, from += 8)
        memcpy(to, from, 8 * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

static void lookup_in(Batch *b, Shard *s, int64_t from, int64_t to)
{
    Table *t = b->table;
    for (int64_t i = from; i < to; i++) {
        load_ahead(b, s, i, from, to, b->out == NULL ? 0 : t->dim);
        const int64_t at = b->order[i];
        const Key *k = &b->keys[i];
        float *out = b->out == NULL ? NULL : b->out + at * t->dim;
        int refused = 0;
        Row *row = planned(b, s, i);
        if (row == NULL)
            row = resolve(b, s, k, b->work == LOOKUP, &refused);
        if (row != NULL) {
            if (b->work != PEEK)
                touch(s, row, b->step, b->counts);
            if (out != NULL)
                copy_row(out, numbers_of(row), t->dim);
        } else if (out != NULL && refused && b->work == LOOKUP) {
            for (int64_t j = 0; j < t->dim; j++)
                out[j] = t->refused;
        } else if (out != NULL)
            begin(t, k->key, out);
        if (b->found != NULL)
            b->found[at] = row != NULL;
        b->rows[i] = row != NULL ? row->number : FREE;
        if (row == NULL && !refused)
            return;
    }
}

static void apply_in(Batch *b, Shard *s, int64_t from, int64_t to)
{
    Table *t = b->table;
    const int64_t n = t->dim;
    int64_t distinct = 0;
    float **rows = malloc((size_t)(to - from) * sizeof *rows);
    const float **grads = malloc((size_t)(to - from) * sizeof *grads);
    float *sums = NULL;
    s->batch++;
    for (int64_t i = from; rows != NULL && grads != NULL && i < to; i++) {
        load_ahead(b, s, i, from, to, t->stride);
        int refused;
        Row *row = planned(b, s, i);
        if (row == NULL && (row = resolve(b, s, &b->keys[i], 1, &refused)) == NULL)
            continue;
        const float *grad = b->in + b->order[i] * n;
        if (row->batch != s->batch) {
            row->batch = s->batch;
            row->place = (int32_t)distinct;
            row->changed = t->epoch;
            touch(s, row, b->step, 0);
            rows[distinct] = numbers_of(row);
            grads[distinct++] = grad;
            continue;
        }
        if (sums == NULL && (sums = malloc((size_t)((to - from) * n) * sizeof *sums)) == NULL) {
            rows = (free(rows), NULL);
            break;
        }
        float *sum = sums + row->place * n;
        if (grads[row->place] != sum) {
            memcpy(sum, grads[row->place], (size_t)n * sizeof *sum);
            grads[row->place] = sum;
        }
        here.floats.add_row(n, sum, grad);
    }
    if (rows == NULL || grads == NULL)
        __atomic_store_n(&b->failed, ENOMEM, __ATOMIC_RELAXED);
    else
        for (int64_t i = 0; i < distinct; i++) {
            float *row = rows[i];
            b->rule(n, b->numbers, row, row + b->slots[0], row + b->slots[1], row + b->slots[2], grads[i]);
        }
    free(rows);
    free(grads);
    free(sums);
    if (t->capacity && !t->outside && s->live > shard_capacity(t) && evict_some(t, s, s->live - shard_capacity(t)) != 1)
        __atomic_store_n(&b->failed, errno == 0 ? ENOMEM : errno, __ATOMIC_RELAXED);
}

static void move_in(Batch *b, Shard *s, int64_t from, int64_t to)
{
    Table *t = b->table;
    for (int64_t i = from; i < to; i++) {
        const int64_t at = b->order[i];
        int refused;
        Row *row = resolve(b, s, &b->keys[i], b->work == WRITE && b->counts, &refused);
        if (b->found != NULL)
            b->found[at] = row != NULL;
        if (row == NULL) {
            if (b->work == READ)
                memcpy(b->out + at * b->width, t->row_start + b->offset, (size_t)b->width * sizeof *b->out);
            if (b->work == READ && b->offset == 0 && b->width >= t->dim)
                begin(t, b->keys[i].key, b->out + at * b->width);
            continue;
        }
        float *here = numbers_of(row) + b->offset;
        if (b->work == READ) {
            memcpy(b->out + at * b->width, here, (size_t)b->width * sizeof *here);
            continue;
        }
        memcpy(here, b->in + at * b->width, (size_t)b->width * sizeof *here);
        row->changed = t->epoch;
        touch(s, row, b->step, 0);
        if (b->versions != NULL)
            row->version = b->versions[at];
        if (b->frequencies != NULL)
            row->frequency = b->frequencies[at];
    }
}

static void remove_in(Batch *b, Shard *s, int64_t from, int64_t to)
{
    Table *t = b->table;
    for (int64_t i = from; i < to; i++) {
        Entry *e = find(t, s, &b->keys[i]);
        if (e->row == EMPTY)
            continue;
        if (e->row >= 0) {
            note_gone(t, s, row_of(t, s, e->row));
            release_row(t, s, e->row);
        } else if (e->row == ON_DISK) {
            note_gone(t, s, &(Row){.key = e->key});
            free_place(t, s, e->count);
        } else
            s->waiting--;
        if (e->row != WAITING)
            __atomic_fetch_add(&b->done, 1, __ATOMIC_RELAXED);
        drop(t, s, e);
    }
}

static void places_in(Batch *b, Shard *s, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        const Entry *e = find(b->table, s, &b->keys[i]);
        b->places[b->order[i]] = e->row == ON_DISK ? (int64_t)e->count : -1;
    }
}

/* Only keys whose row is still at the place that the record was read from get it back, or another place. */
static void give_in(Batch *b, Shard *s, int64_t from, int64_t to)
{
    Table *t = b->table;
    for (int64_t i = from; i < to; i++) {
        const int64_t at = b->order[i];
        Entry *e = find(t, s, &b->keys[i]);
        if (e->row != ON_DISK || b->places[at] != (int64_t)e->count) {
            b->places[at] = -1;
            continue;
        }
        if (b->in == NULL) {
            e->count = (uint32_t)(b->first_place + at);
            continue;
        }
        const int32_t row = take_row(t, s);
        if (row < 0 || put_back(t, s, &b->keys[i], e, row, (const char *)b->in + (size_t)at * record_size(t)) == NULL) {
            __atomic_store_n(&b->failed, ENOMEM, __ATOMIC_RELAXED);
            return;
        }
        s->on_disk--;
    }
}

static void run_shard(const void *given, int64_t number)
{
    Batch *b = (Batch *)given;
    const int64_t at = (number + b->from) % b->table->shard_count, from = b->first[at], to = b->first[at + 1];
    if (from == to)
        return;
    Shard *s = &b->table->shards[at];
    pthread_mutex_lock(&s->lock);
    errno = 0;
    if (!make_entry_room(b->table, s))
        b->failed = ENOMEM;
    else if (b->work == APPLY)
        apply_in(b, s, from, to);
    else if (b->work == READ || b->work == WRITE)
        move_in(b, s, from, to);
    else if (b->work == REMOVE)
        remove_in(b, s, from, to);
    else if (b->work == PLACES)
        places_in(b, s, from, to);
    else if (b->work == GIVE)
        give_in(b, s, from, to);
    else
        lookup_in(b, s, from, to);
    pthread_mutex_unlock(&s->lock);
}

static inline int64_t shard_of(const Table *t, uint64_t hash) { return (int64_t)(hash >> 40) & (t->shard_count - 1); }

/* The i-th key of a batch of numbers, or of texts. */
static inline Key key_at(const int64_t *numbers, const Key *texts, int64_t i)
{
    return texts != NULL ? texts[i] : (Key){numbers[i], NULL, 0, mix((uint64_t)numbers[i])};
}

/* Sorts keys by shard; NULL without memory. Numbers are hashed twice, which is quicker than to write the hashes down. */
static Plan *make_plan(const Table *t, const int64_t *numbers, const Key *texts, int64_t count)
{
    const int64_t shards = t->shard_count;
    Plan *p = malloc(sizeof *p + (size_t)(count + 2 * shards + 1) * sizeof *p->order +
                     (size_t)count * (sizeof *p->keys + sizeof *p->rows));
    if (p == NULL)
        return NULL;
    p->count = count;
    p->keys = (Key *)(p + 1);
    p->order = (int64_t *)(p->keys + count);
    p->first = p->order + count;
    p->rows = (int32_t *)(p->first + 2 * shards + 1);
    int64_t *next = p->first + shards + 1;
    memset(p->first, 0, (size_t)(shards + 1) * sizeof *p->first);
    for (int64_t i = 0; i < count; i++)
        p->first[shard_of(t, key_at(numbers, texts, i).hash) + 1]++;
    for (int64_t i = 0; i < shards; i++) {
        p->first[i + 1] += p->first[i];
        next[i] = p->first[i];
    }
    for (int64_t i = 0; i < count; i++) {
        const Key k = key_at(numbers, texts, i);
        const int64_t to = next[shard_of(t, k.hash)]++;
        p->order[to] = i;
        p->keys[to] = k;
    }
    return p;
}

/* Makes `p` (NULL: none) the plan of the last lookup, and returns the one before. */
static Plan *exchange_recent(Table *t, Plan *p) { return __atomic_exchange_n(&t->recent, p, __ATOMIC_ACQ_REL); }

/* Takes the plan of the last lookup, if it was one of these keys; NULL otherwise. */
static Plan *take_recent(Table *t, const int64_t *keys, int64_t count)
{
    Plan *p = exchange_recent(t, NULL);
    int64_t same_keys = 0;
    if (p != NULL && p->count == count)
        while (same_keys < count && p->keys[same_keys].key == keys[p->order[same_keys]])
            same_keys++;
    if (p == NULL || (p->count == count && same_keys == count))
        return p;
    free(p);
    return NULL;
}

/* Runs the batch; an errno, or 0. Called without Python's lock. */
static int64_t run_batch(Batch *b, const Plan *p)
{
    static int64_t turn;
    Table *t = b->table;
    b->keys = p->keys;
    b->order = p->order;
    b->first = p->first;
    b->from = __atomic_fetch_add(&turn, 7, __ATOMIC_RELAXED) & (t->shard_count - 1);
    share(run_shard, b, t->shard_count, p->count * t->dim);
    return b->failed;
}

/* -- Python ---------------------------------------------------------------------------------------------------------------- */
static Table *table_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, "penstock.keyed"); }
static void *address(PyObject *o) { return (void *)(uintptr_t)PyLong_AsUnsignedLongLong(o); }

static void free_blocks(Shard *s)
{
    for (int64_t i = 0; i < s->block_count; i++)
        free(s->blocks[i]);
    free(s->blocks);
    free(s->chunks);
    s->blocks = NULL; s->chunks = NULL;
    s->chunk_count = s->chunk_room = s->block_count = s->block_room = 0;
}

static void clear_shard(const Table *t, Shard *s)
{
    for (int64_t i = 0; t->is_text && i < s->row_count; i++)
        if (row_of(t, s, i)->number != FREE)
            free(row_of(t, s, i)->text);
    free_blocks(s);
    for (int64_t i = 0; i < s->gone_count; i++)
        free(s->gone[i].text);
    free(s->entries); free(s->free_rows); free(s->free_places); free(s->gone);
    s->entries = NULL; s->free_rows = NULL; s->free_places = NULL; s->gone = NULL;
    s->mask = s->filled = s->row_count = s->free_count = s->free_room = s->live = s->waiting = s->on_disk = 0;
    s->place_count = s->place_room = s->gone_count = s->gone_room = 0;
}

static void free_table(PyObject *capsule)
{
    Table *t = table_of(capsule);
    for (int64_t i = 0; i < t->shard_count; i++) {
        clear_shard(t, &t->shards[i]);
        free(t->shards[i].counters);
        free(t->shards[i].room);
        pthread_mutex_destroy(&t->shards[i].lock);
    }
    if (t->file >= 0)
        close(t->file);
    free(t->recent); free(t->shards); free(t->pool); free(t->row_start); free(t);
}

static int64_t rounded(int64_t width) { return width <= 8 ? (width + 3) / 4 * 4 : (width + 7) / 8 * 8; }

static int make_shards(Table *t)
{
    t->shards = calloc((size_t)t->shard_count, sizeof *t->shards);
    t->row_start = calloc((size_t)t->stride, sizeof *t->row_start);
    if (t->shards == NULL || t->row_start == NULL)
        return 0;
    for (int64_t i = 0; i < t->shard_count; i++) {
        Shard *s = &t->shards[i];
        pthread_mutex_init(&s->lock, NULL);
        s->random = mix((uint64_t)t->seed ^ (uint64_t)i);
        if (t->bloom_size && (s->counters = calloc((size_t)t->bloom_size, sizeof *s->counters)) == NULL)
            return 0;
        if (t->file >= 0 && (s->room = malloc(record_size(t))) == NULL)
            return 0;
    }
    return 1;
}

/* new((dim, shards, capacity, policy, seed, admission, threshold, bloom_size, bloom_hashes, is_text, start, pool_rows),
       start_a, start_b, probability, refused, address of the pool, path of the file, None, or "" if
       the caller keeps the rows that leave) */
static PyObject *new_table(PyObject *self, PyObject *args)
{
    long long n[12], pool;
    double a, b, probability, refused;
    const char *path;
    if (!PyArg_ParseTuple(args, "(LLLLLLLLLLLL)ddddLz", n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9, n + 10,
                          n + 11, &a, &b, &probability, &refused, &pool, &path))
        return NULL;
    if (n[0] < 1 || n[1] < 1 || n[1] & (n[1] - 1) || n[8] > MOST_HASHES || (n[2] && n[2] < n[1]))
        return PyErr_Format(PyExc_ValueError, "a table needs a dimension and a number of shards that is a power of two");
    Table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return PyErr_NoMemory();
    *t = (Table){.dim = n[0], .stride = rounded(n[0]), .shard_count = n[1], .capacity = n[2], .policy = n[3], .seed = n[4],
                 .admission = n[5], .threshold = n[6], .bloom_size = n[7], .bloom_hashes = n[8], .is_text = n[9], .start = n[10],
                 .pool_rows = n[11], .start_a = a, .start_b = b, .probability = probability, .refused = (float)refused,
                 .epoch = 1, .file = -1, .outside = path != NULL && !*path};
    if (path != NULL && *path && (t->file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) < 0) {
        free(t);
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    }
    PyObject *made = PyCapsule_New(t, "penstock.keyed", free_table);
    int whole = made != NULL && make_shards(t);
    if (whole && n[11]) {
        t->pool = malloc((size_t)(n[11] * n[0]) * sizeof *t->pool);
        if ((whole = t->pool != NULL))
            memcpy(t->pool, (void *)(uintptr_t)pool, (size_t)(n[11] * n[0]) * sizeof *t->pool);
    }
    if (!whole) {
        Py_XDECREF(made);
        return PyErr_NoMemory();
    }
    return made;
}

/* The keys of a batch that are a list of bytes; NULL with an exception. */
static Key *read_texts(PyObject *keys, int64_t count)
{
    Key *made = malloc((size_t)(count + 1) * sizeof *made);
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        PyObject *item = i < PyList_GET_SIZE(keys) ? PyList_GET_ITEM(keys, i) : NULL;
        if (item == NULL || !PyBytes_Check(item) || PyBytes_GET_SIZE(item) > INT32_MAX) {
            PyErr_SetString(PyExc_TypeError, "keys must be bytes");
            free(made);
            return NULL;
        }
        const uint32_t length = (uint32_t)PyBytes_GET_SIZE(item);
        const uint64_t hash = mix_text(PyBytes_AS_STRING(item), length);
        made[i] = (Key){(int64_t)hash, PyBytes_AS_STRING(item), length, hash};
    }
    return made;
}

/* The plan of a batch, with an exception if it is NULL. */
static Plan *plan_of(Batch *b, PyObject *keys, int64_t count)
{
    Table *t = b->table;
    Plan *made = b->work == APPLY && !t->is_text ? take_recent(t, address(keys), count) : NULL;
    if (made != NULL) {
        b->rows = made->rows;
        return made;
    }
    Key *texts = t->is_text ? read_texts(keys, count) : NULL;
    if (t->is_text && texts == NULL)
        return NULL;
    made = make_plan(t, t->is_text ? NULL : address(keys), texts, count);
    free(texts);
    if (made == NULL)
        PyErr_NoMemory();
    else if (b->work != APPLY)
        b->rows = made->rows;
    return made;
}

static PyObject *finish(Batch *b, PyObject *keys, int64_t count, PyObject *result)
{
    Plan *plan = PyErr_Occurred() ? NULL : plan_of(b, keys, count);
    if (plan == NULL)
        return NULL;
    int64_t failed;
    Py_BEGIN_ALLOW_THREADS
    failed = run_batch(b, plan);
    const int keeps = b->work == LOOKUP && !b->table->is_text && count <= MOST_KEPT && !failed;
    free(keeps ? exchange_recent(b->table, plan) : plan);
    Py_END_ALLOW_THREADS
    if (failed == ENOMEM)
        return PyErr_NoMemory();
    if (failed) {
        errno = (int)failed;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return result != NULL ? result : PyLong_FromLongLong(b->done);
}

/* lookup(table, keys, count, out address, step, creates, counts, found address) */
static PyObject *lookup(PyObject *self, PyObject *args)
{
    PyObject *capsule, *keys;
    long long count, out, step, found;
    int creates, counts;
    if (!PyArg_ParseTuple(args, "OOLLLppL", &capsule, &keys, &count, &out, &step, &creates, &counts, &found))
        return NULL;
    Batch b = {.table = table_of(capsule), .work = creates ? LOOKUP : out ? PEEK : PREFETCH, .out = (float *)(uintptr_t)out,
               .step = step, .counts = counts, .found = (uint8_t *)(uintptr_t)found};
    return finish(&b, keys, count, NULL);
}

/* apply(table, keys, count, grad address, step, rule, (slot offsets), (numbers)) */
static PyObject *apply(PyObject *self, PyObject *args)
{
    PyObject *capsule, *keys, *slots, *numbers;
    long long count, grad, step;
    int rule;
    if (!PyArg_ParseTuple(args, "OOLLLiO!O!", &capsule, &keys, &count, &grad, &step, &rule, &PyTuple_Type, &slots, &PyTuple_Type,
                          &numbers))
        return NULL;
    if (rule < 0 || rule >= KINDS || PyTuple_GET_SIZE(slots) != slots_of[rule])
        return PyErr_Format(PyExc_ValueError, "a rule was given slots that it does not take");
    Batch b = {.table = table_of(capsule), .work = APPLY, .in = (const float *)(uintptr_t)grad, .step = step,
               .rule = here.floats.rules[rule]};
    for (int i = 0; i < slots_of[rule]; i++) {
        b.slots[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(slots, i));
        if (b.slots[i] < 0 || b.slots[i] + b.table->dim > b.table->stride)
            return PyErr_Format(PyExc_ValueError, "a slot lies outside of the row");
    }
    return numbers_of_rule(numbers, b.numbers) ? finish(&b, keys, count, NULL) : NULL;
}

/* move(table, keys, count, writes, address, offset, width, step, creates, versions address, frequencies address, found address) */
static PyObject *move(PyObject *self, PyObject *args)
{
    PyObject *capsule, *keys;
    long long count, at, offset, width, step, versions, frequencies, found;
    int writes, creates;
    if (!PyArg_ParseTuple(args, "OOLpLLLLpLLL", &capsule, &keys, &count, &writes, &at, &offset, &width, &step, &creates,
                          &versions, &frequencies, &found))
        return NULL;
    Batch b = {.table = table_of(capsule), .work = writes ? WRITE : READ, .in = (const float *)(uintptr_t)at,
               .out = (float *)(uintptr_t)at, .offset = offset, .width = width, .step = step, .counts = creates,
               .versions = (int64_t *)(uintptr_t)versions, .frequencies = (int64_t *)(uintptr_t)frequencies,
               .found = (uint8_t *)(uintptr_t)found};
    if (offset < 0 || width < 0 || offset + width > b.table->stride)
        return PyErr_Format(PyExc_ValueError, "columns outside of the row");
    return finish(&b, keys, count, NULL);
}

static PyObject *remove_keys(PyObject *self, PyObject *args)
{
    PyObject *capsule, *keys;
    long long count;
    if (!PyArg_ParseTuple(args, "OOL", &capsule, &keys, &count))
        return NULL;
    Batch b = {.table = table_of(capsule), .work = REMOVE};
    return finish(&b, keys, count, NULL);
}

/* places(table, keys, count, places address): where `take` put the rows of keys; -1 for keys that are not away */
static PyObject *places(PyObject *self, PyObject *args)
{
    PyObject *capsule, *keys;
    long long count, at;
    if (!PyArg_ParseTuple(args, "OOLL", &capsule, &keys, &count, &at))
        return NULL;
    Batch b = {.table = table_of(capsule), .work = PLACES, .places = (int64_t *)(uintptr_t)at};
    memset(b.places, 0xff, (size_t)count * sizeof *b.places);
    return finish(&b, keys, count, NULL);
}

/* give(table, keys, count, places address, records address, first place): puts rows back; without records, the i-th one is now
   at the first place + i. The places of keys that were not away become -1. */
static PyObject *give(PyObject *self, PyObject *args)
{
    PyObject *capsule, *keys;
    long long count, at, records, first;
    if (!PyArg_ParseTuple(args, "OOLLLL", &capsule, &keys, &count, &at, &records, &first))
        return NULL;
    Batch b = {.table = table_of(capsule), .work = GIVE, .places = (int64_t *)(uintptr_t)at, .first_place = first,
               .in = (const float *)(uintptr_t)records};
    return finish(&b, keys, count, NULL);
}

/* -- whole tables ---------------------------------------------------------------------------------------------------------- */
/* Moves the rows of a shard to longer ones. */
static int relayout(const Table *t, Shard *s, int64_t old)
{
    Shard before = *s;
    s->blocks = NULL; s->chunks = NULL;
    s->chunk_count = s->chunk_room = s->block_count = s->block_room = 0;
    while (s->chunk_count * CHUNK < s->row_count)
        if (!add_chunks(t, s))
            return 0;
    for (int64_t i = 0; i < s->row_count; i++) {
        const float *from = before.chunks[i / CHUNK] + i % CHUNK * (HEAD + old);
        float *to = (float *)row_of(t, s, i);
        memcpy(to + HEAD, t->row_start, (size_t)t->stride * sizeof *to);
        memcpy(to, from, (size_t)(HEAD + old) * sizeof *to);
    }
    free_blocks(&before);
    return 1;
}

/* The records of the file, rewritten in place with more columns. */
static int rewrite_file(Table *t, int64_t old)
{
    const size_t before = sizeof(Kept) + (size_t)old * sizeof(float), after = record_size(t);
    const uint32_t places = t->file_places;
    char *room = malloc(after);
    int whole = room != NULL;
    if (whole)
        memcpy(room + sizeof(Kept), t->row_start, (size_t)t->stride * sizeof(float));
    for (uint32_t i = places; whole && i-- > 0;)            /* from the last one: none is overwritten before it is read */
        whole = pread(t->file, room, before, (off_t)i * (off_t)before) >= 0 &&
                pwrite(t->file, room, after, (off_t)i * (off_t)after) == (ssize_t)after;
    free(room);
    return whole;
}

/* add_columns(table, width, initial value): where the columns begin in a row */
static PyObject *add_columns(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    long long width;
    double initial;
    if (!PyArg_ParseTuple(args, "OLd", &capsule, &width, &initial))
        return NULL;
    Table *t = table_of(capsule);
    const int64_t old = t->stride, stride = old + rounded(width);
    float *start = malloc((size_t)stride * sizeof *start);
    if (width < 1 || start == NULL) {
        free(start);
        return PyErr_NoMemory();
    }
    memcpy(start, t->row_start, (size_t)old * sizeof *start);
    for (int64_t i = old; i < stride; i++)
        start[i] = (float)initial;
    int whole = 1;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < t->shard_count; i++)
        pthread_mutex_lock(&t->shards[i].lock);
    free(t->row_start);
    t->row_start = start;
    t->stride = stride;
    for (int64_t i = 0; i < t->shard_count && whole; i++) {
        whole = relayout(t, &t->shards[i], old);
        if (t->file >= 0) {
            free(t->shards[i].room);
            whole = whole && (t->shards[i].room = malloc(record_size(t))) != NULL;
        }
    }
    if (whole && t->file >= 0)
        whole = rewrite_file(t, old);
    for (int64_t i = 0; i < t->shard_count; i++)
        pthread_mutex_unlock(&t->shards[i].lock);
    Py_END_ALLOW_THREADS
    return whole ? PyLong_FromLongLong(old) : PyErr_NoMemory();
}

/* sizes(table): (rows in memory, rows on disk, waiting keys, bytes of rows and index) */
static PyObject *sizes(PyObject *self, PyObject *capsule)
{
    const Table *t = table_of(capsule);
    if (t == NULL)
        return NULL;
    long long live = 0, disk = 0, waiting = 0, bytes = 0;
    for (int64_t i = 0; i < t->shard_count; i++) {
        Shard *s = &t->shards[i];
        pthread_mutex_lock(&s->lock);
        live += s->live;
        disk += s->on_disk;
        waiting += s->waiting;
        bytes += (s->entries == NULL ? 0 : (s->mask + 1) * (int64_t)sizeof(Entry)) +
                 s->chunk_count * CHUNK * record(t) * (int64_t)sizeof(float) +
                 t->bloom_size * (int64_t)sizeof(uint32_t);
        pthread_mutex_unlock(&s->lock);
    }
    return Py_BuildValue("LLLL", live, disk, waiting, bytes);
}

static PyObject *clear(PyObject *self, PyObject *capsule)
{
    Table *t = table_of(capsule);
    if (t == NULL)
        return NULL;
    for (int64_t i = 0; i < t->shard_count; i++) {
        Shard *s = &t->shards[i];
        pthread_mutex_lock(&s->lock);
        clear_shard(t, s);
        if (s->counters != NULL)
            memset(s->counters, 0, (size_t)t->bloom_size * sizeof *s->counters);
        pthread_mutex_unlock(&s->lock);
    }
    if (t->file >= 0)
        t->file_places = 0;
    Py_RETURN_NONE;
}

static int leaves(const Table *t, int64_t version, const float *row, int64_t oldest, double norm)
{
    if (norm < 0)
        return version < oldest;
    double sum = 0;
    for (int64_t i = 0; i < t->dim; i++)
        sum += (double)row[i] * row[i];
    return sqrt(sum) < norm;
}

/* evict(table, oldest version that stays, least norm that stays or -1): how many rows left. Waiting keys stay. */
static PyObject *evict(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    long long oldest, gone = 0;
    double norm;
    if (!PyArg_ParseTuple(args, "OLd", &capsule, &oldest, &norm))
        return NULL;
    Table *t = table_of(capsule);
    int64_t failed = 0;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < t->shard_count; i++) {
        Shard *s = &t->shards[i];
        pthread_mutex_lock(&s->lock);
        for (int64_t r = 0; r < s->row_count; r++) {
            const Row *row = row_of(t, s, r);
            if (row->number == FREE || !leaves(t, row->version, numbers_of(row), oldest, norm))
                continue;
            const Key key = {row->key, row->text, row->length, hash_of(t, row->key)};
            Entry *e = find(t, s, &key);
            note_gone(t, s, row);
            release_row(t, s, (int32_t)r);
            drop(t, s, e);
            gone++;
        }
        for (int64_t at = 0; s->on_disk && t->file >= 0 && at <= s->mask; at++) {
            Kept kept;
            if (s->entries[at].row != ON_DISK)
                continue;
            if (!read_record(t, s, s->entries[at].count, &kept)) {
                failed = errno ? errno : EIO;
                break;
            }
            if (!leaves(t, kept.version, (const float *)(s->room + sizeof kept), oldest, norm))
                continue;
            note_gone(t, s, &(Row){.key = s->entries[at].key});
            free_place(t, s, s->entries[at].count);
            drop(t, s, &s->entries[at]);
            gone++;
            at--;                                          /* another entry may have moved here */
        }
        pthread_mutex_unlock(&s->lock);
    }
    Py_END_ALLOW_THREADS
    if (failed) {
        errno = (int)failed;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromLongLong(gone);
}

typedef struct { char *bytes; int64_t size, room; } Buffer;

static int put(Buffer *b, const void *from, size_t size)
{
    if (b->size + (int64_t)size > b->room) {
        const int64_t room = (b->size + (int64_t)size) * 3 / 2 + 4096;
        char *made = realloc(b->bytes, (size_t)room);
        if (made == NULL)
            return 0;
        b->bytes = made;
        b->room = room;
    }
    memcpy(b->bytes + b->size, from, size);
    b->size += (int64_t)size;
    return 1;
}

static int put_key(Buffer *keys, const Table *t, int64_t key, const char *text, uint32_t length)
{
    return t->is_text ? put(keys, &length, sizeof length) && put(keys, text, length) : put(keys, &key, sizeof key);
}

/* Moves up to `most` rows of a shard that are too many to the buffers; their places continue `*place`. 0 without memory. */
static int take_some(Table *t, Shard *s, int64_t most, int64_t *place, Buffer *keys, Buffer *records)
{
    int64_t count = too_many(t, s), whole = 1;
    count = count < most ? count : most;
    Leaving *order = count > 0 ? leave_first(t, s, &count) : NULL;
    if (count > 0 && order == NULL)
        return 0;
    for (int64_t i = 0; i < count && whole; i++) {
        const Row *row = row_of(t, s, order[i].row);
        const Kept kept = {row->version, row->frequency, row->changed};
        whole = put(keys, &row->key, sizeof row->key) && put(records, &kept, sizeof kept) &&
                put(records, numbers_of(row), (size_t)t->stride * sizeof(float));
        if (whole) {
            Entry *e = entry_of(t, s, row);
            release_row(t, s, order[i].row);
            e->row = ON_DISK;
            e->count = (uint32_t)(*place)++;
            s->on_disk++;
        }
    }
    free(order);
    return (int)whole;
}

/* take(table, place, most): the keys and records of up to `most` rows that are too many, as bytes, and the floats of a row. The
   i-th row is at `place` + i from now on. */
static PyObject *take(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    long long first, most;
    if (!PyArg_ParseTuple(args, "OLL", &capsule, &first, &most))
        return NULL;
    Table *t = table_of(capsule);
    Buffer keys = {0}, records = {0};
    int64_t place = first;
    int whole = 1;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < t->shard_count && whole; i++) {
        pthread_mutex_lock(&t->shards[i].lock);
        whole = take_some(t, &t->shards[i], first + most - place, &place, &keys, &records);
        pthread_mutex_unlock(&t->shards[i].lock);
    }
    Py_END_ALLOW_THREADS
    PyObject *made = whole ? Py_BuildValue("NNL", PyByteArray_FromStringAndSize(keys.bytes, keys.size),
                                           PyByteArray_FromStringAndSize(records.bytes, records.size), (long long)t->stride)
                           : PyErr_NoMemory();
    free(keys.bytes);
    free(records.bytes);
    return made;
}

enum { KEYS, VERSIONS, FREQUENCIES, ROWS, GONE, PARTS };

static int export_shard(Table *t, Shard *s, int64_t since, Buffer *to)
{
    for (int64_t r = 0; r < s->row_count; r++) {
        const Row *row = row_of(t, s, r);
        if (row->number != FREE && row->changed > since &&
            !(put_key(&to[KEYS], t, row->key, row->text, row->length) && put(&to[VERSIONS], &row->version, 8) &&
              put(&to[FREQUENCIES], &row->frequency, 8) &&
              put(&to[ROWS], numbers_of(row), (size_t)t->stride * sizeof(float))))
            return 0;
    }
    for (int64_t at = 0; s->on_disk && t->file >= 0 && at <= s->mask; at++) {
        Kept kept;
        if (s->entries[at].row != ON_DISK)
            continue;
        if (!read_record(t, s, s->entries[at].count, &kept))
            return 0;
        if (kept.changed > since &&
            !(put(&to[KEYS], &s->entries[at].key, 8) && put(&to[VERSIONS], &kept.version, 8) &&
              put(&to[FREQUENCIES], &kept.frequency, 8) &&
              put(&to[ROWS], s->room + sizeof kept, (size_t)t->stride * sizeof(float))))
            return 0;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < s->gone_count; i++) {
        const Gone *g = &s->gone[i];
        if (g->changed > since && !put_key(&to[GONE], t, g->key, g->text, g->length))
            return 0;
        if (g->changed > since)
            s->gone[kept++] = *g;
        else
            free(g->text);
    }
    s->gone_count = kept;
    return 1;
}

/* export(table, since): the rows that changed in epochs after `since`, as bytes: keys, versions, frequencies, rows; and the keys
   that left in those epochs. A new epoch begins, whose number is returned first: what changes from now on is after it. */
static PyObject *export_rows(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    long long since;
    if (!PyArg_ParseTuple(args, "OL", &capsule, &since))
        return NULL;
    Table *t = table_of(capsule);
    Buffer parts[PARTS] = {{0}};
    int whole = 1;
    const long long epoch = __atomic_fetch_add(&t->epoch, 1, __ATOMIC_SEQ_CST);
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < t->shard_count && whole; i++) {
        pthread_mutex_lock(&t->shards[i].lock);
        whole = export_shard(t, &t->shards[i], since, parts);
        pthread_mutex_unlock(&t->shards[i].lock);
    }
    Py_END_ALLOW_THREADS
    PyObject *made = whole ? PyTuple_New(PARTS + 2) : PyErr_NoMemory();
    for (int i = 0; i < PARTS; i++) {
        if (made != NULL)
            PyTuple_SET_ITEM(made, i + 1, PyByteArray_FromStringAndSize(parts[i].bytes, parts[i].size));
        free(parts[i].bytes);
    }
    if (made != NULL) {
        PyTuple_SET_ITEM(made, 0, PyLong_FromLongLong(epoch));
        PyTuple_SET_ITEM(made, PARTS + 1, PyLong_FromLongLong(t->stride));
    }
    return made;
}

static PyObject *track_gone(PyObject *self, PyObject *capsule)
{
    Table *t = table_of(capsule);
    if (t == NULL)
        return NULL;
    t->tracks_gone = 1;
    Py_RETURN_NONE;
}

/* statistics(table, keys, count, versions address, frequencies address): 0 of keys without a row; waiting keys count */
static PyObject *statistics(PyObject *self, PyObject *args)
{
    PyObject *capsule, *keys;
    long long count, versions, frequencies;
    if (!PyArg_ParseTuple(args, "OOLLL", &capsule, &keys, &count, &versions, &frequencies))
        return NULL;
    Table *t = table_of(capsule);
    Key *texts = t->is_text ? read_texts(keys, count) : NULL;
    const int64_t *numbers = t->is_text ? NULL : address(keys);
    if (t->is_text && texts == NULL)
        return NULL;
    int64_t *v = (int64_t *)(uintptr_t)versions, *f = (int64_t *)(uintptr_t)frequencies;
    for (int64_t i = 0; i < count; i++) {
        const Key k = key_at(numbers, texts, i);
        Shard *s = &t->shards[shard_of(t, k.hash)];
        Kept kept = {0};
        pthread_mutex_lock(&s->lock);
        const Entry *e = s->entries == NULL ? NULL : find(t, s, &k);
        if (e != NULL && e->row >= 0)
            kept = (Kept){row_of(t, s, e->row)->version, row_of(t, s, e->row)->frequency, 0};
        else if (e != NULL && e->row == WAITING)
            kept.frequency = e->count;
        else if (e != NULL && e->row == ON_DISK && (t->file < 0 || !read_record(t, s, e->count, &kept)))
            kept = (Kept){0};
        pthread_mutex_unlock(&s->lock);
        v[i] = kept.version;
        f[i] = kept.frequency;
    }
    free(texts);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"new", new_table, METH_VARARGS, "Makes a table."},
    {"lookup", lookup, METH_VARARGS, "Copies the values of keys out of a table."},
    {"apply", apply, METH_VARARGS, "Updates the rows of keys by an optimizer's rule; gradients of equal keys are added up."},
    {"move", move, METH_VARARGS, "Reads or writes some columns of the rows of keys."},
    {"places", places, METH_VARARGS, "Where the rows of keys are that are kept outside."},
    {"take", take, METH_VARARGS, "Moves rows that are too many out of the table."},
    {"give", give, METH_VARARGS, "Puts rows back that were taken."},
    {"remove", remove_keys, METH_VARARGS, "Forgets keys; how many had a row."},
    {"add_columns", add_columns, METH_VARARGS, "Makes rows longer."},
    {"sizes", sizes, METH_O, "Rows in memory, rows on disk, waiting keys, bytes."},
    {"clear", clear, METH_O, "Forgets everything."},
    {"evict", evict, METH_VARARGS, "Forgets rows by age or by norm."},
    {"export", export_rows, METH_VARARGS, "Rows and keys that changed."},
    {"track_gone", track_gone, METH_O, "Keeps a record of the keys that leave, for incremental exports."},
    {"statistics", statistics, METH_VARARGS, "Versions and frequencies of keys."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_keyed", "Embeddings by key.", -1, methods};

PyMODINIT_FUNC PyInit__keyed(void)
{
    here = choose_rules();
    PyObject *made = PyModule_Create(&module), *names = PyTuple_New(KINDS);
    for (int i = 0; names != NULL && i < KINDS; i++)
        PyTuple_SET_ITEM(names, i, PyUnicode_FromString(rule_names[i]));
    if (made != NULL && names != NULL)
        PyModule_AddObject(made, "RULES", names);
    return made;
}
