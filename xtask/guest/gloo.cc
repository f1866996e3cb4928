// gloo RANK RANKS DIRECTORY DEVICE GID
//
// One of several ranks that add up numbers by Gloo's algorithms, over its transport of verbs, and check each
// sum. The ranks find each other by files in a directory.

#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using Context = std::shared_ptr<gloo::Context>;
using Numbers = std::vector<float>;

// No object is destroyed: an algorithm ends when it has received all messages, and aborts if its
// buffers are destroyed before its last message has completed, over any library.
static Numbers &numbers(const Context &context, int count) {
    auto &numbers = *new Numbers(count);
    for (int i = 0; i < count; i++)
        numbers[i] = context->rank + i % 7;
    return numbers;
}

static bool are(const Numbers &numbers, int times, int more) {
    for (size_t i = 0; i < numbers.size(); i++)
        if (numbers[i] != times * static_cast<int>(i % 7) + more)
            return false;
    return true;
}

template <class Algorithm> static bool adds_up(const Context &context, int count) {
    auto &sums = numbers(context, count);
    (new Algorithm(context, {sums.data()}, count))->run();
    int ranks = context->size;
    return are(sums, ranks, ranks * (ranks - 1) / 2);
}

static bool is_sent_to_all(const Context &context, int count) {
    auto &copy = numbers(context, count);
    (new gloo::BroadcastOneToAll<float>(context, {copy.data()}, count))->run();
    return are(copy, 1, 0);
}

static bool all_is_right(const Context &context) {
    for (int turn = 0; turn < 10; turn++)
        // Of fewer than 256 numbers the ring registers as many as 256 are.
        for (int count : {1000, 300000})
            if (!adds_up<gloo::AllreduceRingChunked<float>>(context, count) ||
                !adds_up<gloo::AllreduceHalvingDoubling<float>>(context, count) ||
                !is_sent_to_all(context, count))
                return false;
    return true;
}

// Waits until all ranks have come so far. A barrier of Gloo's does not: it ends when the others' messages are
// here, and the own may be lost with this process.
static bool all_are_done(const std::string &directory, int rank, int ranks) {
    auto done = [&](int rank) { return directory + "/done." + std::to_string(rank); };
    std::ofstream(done(rank)).flush();
    for (int other = 0; other < ranks; other++)
        for (int looks = 0; access(done(other).c_str(), F_OK) != 0; looks++) {
            if (looks == 60000)
                return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    return true;
}

int main(int count, char **arguments) {
    if (count != 6)
        return 2;
    int rank = atoi(arguments[1]), ranks = atoi(arguments[2]);
    gloo::rendezvous::FileStore store(arguments[3]);
    gloo::transport::ibverbs::attr port;
    port.name = arguments[4];
    port.port = 1;
    port.index = atoi(arguments[5]);
    auto device = gloo::transport::ibverbs::CreateDevice(port);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context->connectFullMesh(store, device);
    bool right = all_is_right(context);
    (new gloo::BarrierAllToAll(context))->run();
    printf("rank %d of %d: %s\n", rank, ranks, right ? "the right sums" : "WRONG");
    fflush(stdout);
    bool done = all_are_done(arguments[3], rank, ranks);
    _exit(right && done ? 0 : 1);
}
