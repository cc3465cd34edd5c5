/* Times the gradient of forward dynamics of GRiD's generated header, data on the GPU, float32.
 *
 * Reads a state from standard input: q, qd, tau. Arguments: gravity along z in m/s², batches. Writes "gradient" and the entries of (dqdd/dq,
 * dqdd/dqd), column-major, of that state; then per batch: its size, microseconds of a launch among many, microseconds of
 * a launch that is waited for, threads a block, which are those that take the least time.
 * Compiled with -DGRID_HEADER, the header that grid-generate wrote. */
#include GRID_HEADER

#include <algorithm>
#include <chrono>
#include <vector>

#define CHECK(call)                                                           \
    do {                                                                      \
        const cudaError_t status = (call);                                    \
        if (status != cudaSuccess) {                                          \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));   \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static const int STATE = 3 * grid::NUM_VEL, GRADIENT = 2 * grid::NUM_VEL * grid::NUM_VEL;
static const int LAUNCHES = 20, TIMES = 15, CALLS = 200;

static double median(std::vector<double> &times) {
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
}

int main(int count, char **arguments) {
    if (count < 2) return fprintf(stderr, "expected gravity\n"), 1;
    const float gravity = atof(arguments[1]);
    std::vector<float> state(STATE), gradient(GRADIENT);
    for (float &x : state)
        if (scanf("%f", &x) != 1) return fprintf(stderr, "expected %d numbers\n", STATE), 1;
    int most = 1;
    for (int k = 2; k < count; k++) most = std::max(most, atoi(arguments[k]));
    grid::robotModel<float> *const model = grid::init_robotModel<float>();
    grid::init_grid<float>();
    grid::gridData<float, grid::GRID_DATA_DYNAMICS> *const data = grid::init_gridData<float, grid::GRID_DATA_DYNAMICS>(most);
    std::vector<float> states;
    for (int k = 0; k < most; k++) states.insert(states.end(), state.begin(), state.end());
    CHECK(cudaMemcpy(data->d_q_qd_u, states.data(), states.size() * sizeof(float), cudaMemcpyHostToDevice));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    const auto launch = [&](int batch, int threads) {
        grid::forward_dynamics_gradient_kernel<float>
            <<<batch, threads, grid::FORWARD_DYNAMICS_GRADIENT_DYNAMIC_SHARED_MEM_BYTES<float>(), stream>>>(
                data->d_df_du, data->d_workspace, data->d_q_qd_u, STATE, nullptr, model, gravity, batch);
    };
    launch(1, grid::FORWARD_DYNAMICS_GRADIENT_SUGGESTED_THREADS);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(gradient.data(), data->d_df_du, GRADIENT * sizeof(float), cudaMemcpyDeviceToHost));
    printf("gradient");
    for (float x : gradient) printf(" %.9g", x);
    printf("\n");
    for (int k = 2; k < count; k++) {
        const int batch = atoi(arguments[k]);
        double best = 1e30;
        int chosen = 0;
        for (int threads = 32; threads <= grid::tier_max_threads<grid::TIER_SHARED>(); threads += 32) {
            std::vector<double> times;
            for (int t = 0; t < TIMES; t++) {
                CHECK(cudaEventRecord(begin, stream));
                for (int l = 0; l < LAUNCHES; l++) launch(batch, threads);
                CHECK(cudaEventRecord(end, stream));
                CHECK(cudaEventSynchronize(end));
                float milliseconds;
                CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
                times.push_back(1e3 * milliseconds / LAUNCHES);
            }
            const double time = median(times);
            if (time < best) best = time, chosen = threads;
        }
        std::vector<double> calls;
        for (int t = 0; t < CALLS; t++) {
            const auto before = std::chrono::steady_clock::now();
            launch(batch, chosen);
            CHECK(cudaStreamSynchronize(stream));
            const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - before;
            calls.push_back(took.count());
        }
        CHECK(cudaGetLastError());
        printf("%d %g %g %d\n", batch, best, median(calls), chosen);
    }
    return 0;
}
