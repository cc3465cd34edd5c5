/* A robot as a functional mock-up unit of FMI 3.0, https://fmi-standard.org/docs/3.0.1.
 *
 * The including file defines NQ, NV, DT (seconds of an internal step), MODEL_EXCHANGE (0 or 1), TOKEN and `neutral`, and
 * the functions accelerations(q, qd, tau, qdd), gradient(q, qd, tau, qdd, dqdd_dq, dqdd_dqd, minv) and
 * advance(q, qd, tau, q_next, qd_next). */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef DYNAGATE_FMI_HEADER /* the declarations of the standard, to be compared with those below */
#include DYNAGATE_FMI_HEADER
#else
#if defined(_WIN32)
#define FMI3_Export __declspec(dllexport)
#elif defined(__GNUC__)
#define FMI3_Export __attribute__((visibility("default")))
#else
#define FMI3_Export
#endif
typedef void *fmi3Instance, *fmi3InstanceEnvironment, *fmi3FMUState;
typedef uint32_t fmi3ValueReference;
typedef float fmi3Float32;
typedef double fmi3Float64;
typedef int8_t fmi3Int8;
typedef uint8_t fmi3UInt8, fmi3Byte;
typedef int16_t fmi3Int16;
typedef uint16_t fmi3UInt16;
typedef int32_t fmi3Int32;
typedef uint32_t fmi3UInt32;
typedef int64_t fmi3Int64;
typedef uint64_t fmi3UInt64;
typedef bool fmi3Boolean, fmi3Clock;
typedef const char *fmi3String;
typedef const fmi3Byte *fmi3Binary;
typedef enum { fmi3OK, fmi3Warning, fmi3Discard, fmi3Error, fmi3Fatal } fmi3Status;
typedef enum { fmi3Independent, fmi3Constant, fmi3Fixed, fmi3Tunable, fmi3Discrete, fmi3Dependent } fmi3DependencyKind;
typedef enum { fmi3IntervalNotYetKnown, fmi3IntervalUnchanged, fmi3IntervalChanged } fmi3IntervalQualifier;
typedef void (*fmi3LogMessageCallback)(fmi3InstanceEnvironment, fmi3Status, fmi3String, fmi3String);
typedef void (*fmi3ClockUpdateCallback)(fmi3InstanceEnvironment);
typedef void (*fmi3IntermediateUpdateCallback)(fmi3InstanceEnvironment, fmi3Float64, fmi3Boolean, fmi3Boolean, fmi3Boolean,
                                               fmi3Boolean, fmi3Boolean *, fmi3Float64 *);
typedef void (*fmi3LockPreemptionCallback)(void);
typedef void (*fmi3UnlockPreemptionCallback)(void);
#endif

/* Value references: time, then the entries of tau, q, qd and qdd. */
enum { TAU = 1, POSITION = TAU + NV, VELOCITY = POSITION + NQ, ACCELERATION = VELOCITY + NV, VARIABLES = ACCELERATION + NV };
typedef enum { INSTANTIATED, INITIALIZATION, EVENT, CONTINUOUS, STEP, TERMINATED } Mode;

typedef struct {
    double time, tau[NV], q[NQ], qd[NV];
    Mode mode;
} State;

typedef struct {
    State state;
    double qdd[NV];
    int is_fresh; /* whether qdd belongs to the state */
    int is_co_simulation;
    fmi3InstanceEnvironment environment;
    fmi3LogMessageCallback log;
} Robot;

static fmi3Status failed(Robot *robot, const char *text) {
    if (robot && robot->log) robot->log(robot->environment, fmi3Error, "logStatusError", text);
    return fmi3Error;
}

static void reset(Robot *robot) {
    memset(&robot->state, 0, sizeof robot->state);
    memcpy(robot->state.q, neutral, sizeof neutral);
    robot->is_fresh = 0;
}

static fmi3Status refresh(Robot *robot) {
    const State *s = &robot->state;
    if (robot->is_fresh) return fmi3OK;
    accelerations(s->q, s->qd, s->tau, robot->qdd);
    if (dg_doubt(robot->qdd, NV) != 0) return failed(robot, "an acceleration is infinite or NaN");
    robot->is_fresh = 1;
    return fmi3OK;
}

/* The place of a variable in the state; NULL for accelerations and unknown references. */
static double *place(State *s, fmi3ValueReference reference) {
    if (reference == 0) return &s->time;
    if (reference < POSITION) return s->tau + (reference - TAU);
    if (reference < VELOCITY) return s->q + (reference - POSITION);
    if (reference < ACCELERATION) return s->qd + (reference - VELOCITY);
    return NULL;
}

FMI3_Export const char *fmi3GetVersion(void) { return "3.0"; }

FMI3_Export fmi3Status fmi3SetDebugLogging(fmi3Instance instance, fmi3Boolean loggingOn, size_t nCategories,
                                           const fmi3String categories[]) {
    return fmi3OK;
}

static fmi3Instance instantiate(fmi3String token, int is_co_simulation, fmi3InstanceEnvironment environment,
                                fmi3LogMessageCallback log) {
    if (!token || strcmp(token, TOKEN) != 0) {
        if (log) log(environment, fmi3Error, "logStatusError", "the instantiation token is that of another unit");
        return NULL;
    }
    Robot *robot = (Robot *)calloc(1, sizeof *robot);
    if (!robot) return NULL;
    robot->is_co_simulation = is_co_simulation, robot->environment = environment, robot->log = log;
    reset(robot);
    return robot;
}

FMI3_Export fmi3Instance fmi3InstantiateModelExchange(fmi3String instanceName, fmi3String instantiationToken,
                                                      fmi3String resourcePath, fmi3Boolean visible, fmi3Boolean loggingOn,
                                                      fmi3InstanceEnvironment instanceEnvironment,
                                                      fmi3LogMessageCallback logMessage) {
    return MODEL_EXCHANGE ? instantiate(instantiationToken, 0, instanceEnvironment, logMessage) : NULL;
}

FMI3_Export fmi3Instance fmi3InstantiateCoSimulation(
    fmi3String instanceName, fmi3String instantiationToken, fmi3String resourcePath, fmi3Boolean visible,
    fmi3Boolean loggingOn, fmi3Boolean eventModeUsed, fmi3Boolean earlyReturnAllowed,
    const fmi3ValueReference requiredIntermediateVariables[], size_t nRequiredIntermediateVariables,
    fmi3InstanceEnvironment instanceEnvironment, fmi3LogMessageCallback logMessage,
    fmi3IntermediateUpdateCallback intermediateUpdate) {
    return instantiate(instantiationToken, 1, instanceEnvironment, logMessage);
}

FMI3_Export fmi3Instance fmi3InstantiateScheduledExecution(
    fmi3String instanceName, fmi3String instantiationToken, fmi3String resourcePath, fmi3Boolean visible,
    fmi3Boolean loggingOn, fmi3InstanceEnvironment instanceEnvironment, fmi3LogMessageCallback logMessage,
    fmi3ClockUpdateCallback clockUpdate, fmi3LockPreemptionCallback lockPreemption,
    fmi3UnlockPreemptionCallback unlockPreemption) {
    return NULL;
}

FMI3_Export void fmi3FreeInstance(fmi3Instance instance) { free(instance); }

/* The next mode, if the unit is in one of two modes. */
static fmi3Status change(fmi3Instance instance, Mode from, Mode or_from, Mode to, const char *text) {
    Robot *robot = (Robot *)instance;
    if (robot->state.mode != from && robot->state.mode != or_from) return failed(robot, text);
    robot->state.mode = to;
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3EnterInitializationMode(fmi3Instance instance, fmi3Boolean toleranceDefined,
                                                   fmi3Float64 tolerance, fmi3Float64 startTime,
                                                   fmi3Boolean stopTimeDefined, fmi3Float64 stopTime) {
    ((Robot *)instance)->state.time = startTime;
    return change(instance, INSTANTIATED, INSTANTIATED, INITIALIZATION, "the unit is initialized already");
}

FMI3_Export fmi3Status fmi3ExitInitializationMode(fmi3Instance instance) {
    const Mode next = ((Robot *)instance)->is_co_simulation ? STEP : EVENT;
    return change(instance, INITIALIZATION, INITIALIZATION, next, "the unit is not in initialization mode");
}

FMI3_Export fmi3Status fmi3EnterEventMode(fmi3Instance instance) {
    return change(instance, CONTINUOUS, EVENT, EVENT, "event mode follows continuous-time mode");
}

FMI3_Export fmi3Status fmi3EnterContinuousTimeMode(fmi3Instance instance) {
    return change(instance, EVENT, EVENT, CONTINUOUS, "continuous-time mode follows event mode");
}

FMI3_Export fmi3Status fmi3EnterStepMode(fmi3Instance instance) {
    return failed((Robot *)instance, "the unit has no event mode in co-simulation");
}

FMI3_Export fmi3Status fmi3EnterConfigurationMode(fmi3Instance instance) {
    return failed((Robot *)instance, "the unit has no structural parameters");
}

FMI3_Export fmi3Status fmi3ExitConfigurationMode(fmi3Instance instance) {
    return failed((Robot *)instance, "the unit has no structural parameters");
}

FMI3_Export fmi3Status fmi3Terminate(fmi3Instance instance) {
    ((Robot *)instance)->state.mode = TERMINATED;
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3Reset(fmi3Instance instance) {
    reset((Robot *)instance);
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3GetFloat64(fmi3Instance instance, const fmi3ValueReference valueReferences[],
                                      size_t nValueReferences, fmi3Float64 values[], size_t nValues) {
    Robot *robot = (Robot *)instance;
    if (nValues != nValueReferences) return failed(robot, "each variable has one value");
    for (size_t k = 0; k < nValueReferences; k++) {
        const fmi3ValueReference reference = valueReferences[k];
        if (reference >= VARIABLES) return failed(robot, "a value reference is unknown");
        if (reference >= ACCELERATION && refresh(robot) != fmi3OK) return fmi3Error;
        values[k] = reference < ACCELERATION ? *place(&robot->state, reference) : robot->qdd[reference - ACCELERATION];
    }
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3SetFloat64(fmi3Instance instance, const fmi3ValueReference valueReferences[],
                                      size_t nValueReferences, const fmi3Float64 values[], size_t nValues) {
    Robot *robot = (Robot *)instance;
    const int is_start = robot->state.mode == INSTANTIATED || robot->state.mode == INITIALIZATION;
    if (nValues != nValueReferences) return failed(robot, "each variable has one value");
    for (size_t k = 0; k < nValueReferences; k++) {
        const fmi3ValueReference reference = valueReferences[k];
        if (reference < TAU || reference >= ACCELERATION) return failed(robot, "a variable that is computed was set");
        if (reference >= POSITION && !is_start) return failed(robot, "a state was set after the start");
        if (!(values[k] - values[k] == 0)) return failed(robot, "a value is infinite or NaN");
    }
    for (size_t k = 0; k < nValueReferences; k++) *place(&robot->state, valueReferences[k]) = values[k];
    robot->is_fresh = 0;
    return fmi3OK;
}

#define OTHER_TYPE(type)                                                                                                  \
    FMI3_Export fmi3Status fmi3Get##type(fmi3Instance instance, const fmi3ValueReference valueReferences[],               \
                                         size_t nValueReferences, fmi3##type values[], size_t nValues) {                  \
        return nValueReferences ? failed((Robot *)instance, "all variables are Float64") : fmi3OK;                        \
    }                                                                                                                     \
    FMI3_Export fmi3Status fmi3Set##type(fmi3Instance instance, const fmi3ValueReference valueReferences[],               \
                                         size_t nValueReferences, const fmi3##type values[], size_t nValues) {            \
        return nValueReferences ? failed((Robot *)instance, "all variables are Float64") : fmi3OK;                        \
    }
OTHER_TYPE(Float32)
OTHER_TYPE(Int8)
OTHER_TYPE(UInt8)
OTHER_TYPE(Int16)
OTHER_TYPE(UInt16)
OTHER_TYPE(Int32)
OTHER_TYPE(UInt32)
OTHER_TYPE(Int64)
OTHER_TYPE(UInt64)
OTHER_TYPE(Boolean)
OTHER_TYPE(String)

#define REFUSED(name, text, ...) \
    FMI3_Export fmi3Status name(fmi3Instance instance, __VA_ARGS__) { return failed((Robot *)instance, text); }
REFUSED(fmi3GetBinary, "all variables are Float64", const fmi3ValueReference valueReferences[], size_t nValueReferences,
        size_t valueSizes[], fmi3Binary values[], size_t nValues)
REFUSED(fmi3SetBinary, "all variables are Float64", const fmi3ValueReference valueReferences[], size_t nValueReferences,
        const size_t valueSizes[], const fmi3Binary values[], size_t nValues)
REFUSED(fmi3GetClock, "the unit has no clocks", const fmi3ValueReference valueReferences[], size_t nValueReferences,
        fmi3Clock values[])
REFUSED(fmi3SetClock, "the unit has no clocks", const fmi3ValueReference valueReferences[], size_t nValueReferences,
        const fmi3Clock values[])
REFUSED(fmi3GetIntervalDecimal, "the unit has no clocks", const fmi3ValueReference valueReferences[],
        size_t nValueReferences, fmi3Float64 intervals[], fmi3IntervalQualifier qualifiers[])
REFUSED(fmi3GetIntervalFraction, "the unit has no clocks", const fmi3ValueReference valueReferences[],
        size_t nValueReferences, fmi3UInt64 counters[], fmi3UInt64 resolutions[], fmi3IntervalQualifier qualifiers[])
REFUSED(fmi3GetShiftDecimal, "the unit has no clocks", const fmi3ValueReference valueReferences[],
        size_t nValueReferences, fmi3Float64 shifts[])
REFUSED(fmi3GetShiftFraction, "the unit has no clocks", const fmi3ValueReference valueReferences[],
        size_t nValueReferences, fmi3UInt64 counters[], fmi3UInt64 resolutions[])
REFUSED(fmi3SetIntervalDecimal, "the unit has no clocks", const fmi3ValueReference valueReferences[],
        size_t nValueReferences, const fmi3Float64 intervals[])
REFUSED(fmi3SetIntervalFraction, "the unit has no clocks", const fmi3ValueReference valueReferences[],
        size_t nValueReferences, const fmi3UInt64 counters[], const fmi3UInt64 resolutions[])
REFUSED(fmi3SetShiftDecimal, "the unit has no clocks", const fmi3ValueReference valueReferences[],
        size_t nValueReferences, const fmi3Float64 shifts[])
REFUSED(fmi3SetShiftFraction, "the unit has no clocks", const fmi3ValueReference valueReferences[],
        size_t nValueReferences, const fmi3UInt64 counters[], const fmi3UInt64 resolutions[])
REFUSED(fmi3ActivateModelPartition, "the unit has no clocks", fmi3ValueReference clockReference,
        fmi3Float64 activationTime)
REFUSED(fmi3GetNumberOfVariableDependencies, "dependencies are those of modelDescription.xml",
        fmi3ValueReference valueReference, size_t *nDependencies)
REFUSED(fmi3GetVariableDependencies, "dependencies are those of modelDescription.xml", fmi3ValueReference dependent,
        size_t elementIndicesOfDependent[], fmi3ValueReference independents[], size_t elementIndicesOfIndependents[],
        fmi3DependencyKind dependencyKinds[], size_t nDependencies)
REFUSED(fmi3GetOutputDerivatives, "the unit has no derivatives of outputs", const fmi3ValueReference valueReferences[],
        size_t nValueReferences, const fmi3Int32 orders[], fmi3Float64 values[], size_t nValues)

FMI3_Export fmi3Status fmi3GetFMUState(fmi3Instance instance, fmi3FMUState *FMUState) {
    if (!*FMUState) *FMUState = malloc(sizeof(State));
    if (!*FMUState) return failed((Robot *)instance, "there is no memory for a state");
    memcpy(*FMUState, &((Robot *)instance)->state, sizeof(State));
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3SetFMUState(fmi3Instance instance, fmi3FMUState FMUState) {
    Robot *robot = (Robot *)instance;
    memcpy(&robot->state, FMUState, sizeof(State));
    robot->is_fresh = 0;
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3FreeFMUState(fmi3Instance instance, fmi3FMUState *FMUState) {
    if (FMUState) free(*FMUState), *FMUState = NULL;
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3SerializedFMUStateSize(fmi3Instance instance, fmi3FMUState FMUState, size_t *size) {
    *size = sizeof(State);
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3SerializeFMUState(fmi3Instance instance, fmi3FMUState FMUState, fmi3Byte serializedState[],
                                             size_t size) {
    if (size < sizeof(State)) return failed((Robot *)instance, "the memory for a serialized state is too small");
    memcpy(serializedState, FMUState, sizeof(State));
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3DeserializeFMUState(fmi3Instance instance, const fmi3Byte serializedState[], size_t size,
                                               fmi3FMUState *FMUState) {
    if (size != sizeof(State)) return failed((Robot *)instance, "a serialized state has another size");
    if (!*FMUState) *FMUState = malloc(sizeof(State));
    if (!*FMUState) return failed((Robot *)instance, "there is no memory for a state");
    memcpy(*FMUState, serializedState, sizeof(State));
    return fmi3OK;
}

#if MODEL_EXCHANGE
/* Exact derivatives of the accelerations, row by row. */
typedef struct {
    double by_q[NV * NQ], by_qd[NV * NV], by_tau[NV * NV];
} Gradient;

static double derivative(const Gradient *g, fmi3ValueReference unknown, fmi3ValueReference known) {
    if (unknown == known) return 1;
    if (unknown < ACCELERATION || known >= ACCELERATION || known < TAU) return 0;
    const long row = (long)(unknown - ACCELERATION);
    if (known < POSITION) return g->by_tau[row * NV + (known - TAU)];
    if (known < VELOCITY) return g->by_q[row * NQ + (known - POSITION)];
    return g->by_qd[row * NV + (known - VELOCITY)];
}

static fmi3Status derivatives(Robot *robot, const fmi3ValueReference unknowns[], size_t nUnknowns,
                              const fmi3ValueReference knowns[], size_t nKnowns, const double seed[],
                              double sensitivity[], int is_adjoint) {
    Gradient g;
    double qdd[NV];
    const State *s = &robot->state;
    for (size_t k = 0; k < nUnknowns + nKnowns; k++)
        if ((k < nUnknowns ? unknowns[k] : knowns[k - nUnknowns]) >= VARIABLES)
            return failed(robot, "a value reference is unknown");
    gradient(s->q, s->qd, s->tau, qdd, g.by_q, g.by_qd, g.by_tau);
    const size_t results = is_adjoint ? nKnowns : nUnknowns, seeds = is_adjoint ? nUnknowns : nKnowns;
    for (size_t i = 0; i < results; i++) {
        sensitivity[i] = 0;
        for (size_t j = 0; j < seeds; j++)
            sensitivity[i] += seed[j] * derivative(&g, unknowns[is_adjoint ? j : i], knowns[is_adjoint ? i : j]);
    }
    return dg_doubt(sensitivity, (long)results) != 0 ? failed(robot, "a derivative is infinite or NaN") : fmi3OK;
}
#else
static fmi3Status derivatives(Robot *robot, const fmi3ValueReference unknowns[], size_t nUnknowns,
                              const fmi3ValueReference knowns[], size_t nKnowns, const double seed[],
                              double sensitivity[], int is_adjoint) {
    return failed(robot, "a robot with quaternions has no derivatives by its coordinates");
}
#endif

FMI3_Export fmi3Status fmi3GetDirectionalDerivative(fmi3Instance instance, const fmi3ValueReference unknowns[],
                                                    size_t nUnknowns, const fmi3ValueReference knowns[], size_t nKnowns,
                                                    const fmi3Float64 seed[], size_t nSeed, fmi3Float64 sensitivity[],
                                                    size_t nSensitivity) {
    if (nSeed != nKnowns || nSensitivity != nUnknowns)
        return failed((Robot *)instance, "each known has one seed and each unknown one sensitivity");
    return derivatives((Robot *)instance, unknowns, nUnknowns, knowns, nKnowns, seed, sensitivity, 0);
}

FMI3_Export fmi3Status fmi3GetAdjointDerivative(fmi3Instance instance, const fmi3ValueReference unknowns[],
                                                size_t nUnknowns, const fmi3ValueReference knowns[], size_t nKnowns,
                                                const fmi3Float64 seed[], size_t nSeed, fmi3Float64 sensitivity[],
                                                size_t nSensitivity) {
    if (nSeed != nUnknowns || nSensitivity != nKnowns)
        return failed((Robot *)instance, "each unknown has one seed and each known one sensitivity");
    return derivatives((Robot *)instance, unknowns, nUnknowns, knowns, nKnowns, seed, sensitivity, 1);
}

FMI3_Export fmi3Status fmi3EvaluateDiscreteStates(fmi3Instance instance) { return fmi3OK; }

FMI3_Export fmi3Status fmi3UpdateDiscreteStates(fmi3Instance instance, fmi3Boolean *discreteStatesNeedUpdate,
                                                fmi3Boolean *terminateSimulation,
                                                fmi3Boolean *nominalsOfContinuousStatesChanged,
                                                fmi3Boolean *valuesOfContinuousStatesChanged,
                                                fmi3Boolean *nextEventTimeDefined, fmi3Float64 *nextEventTime) {
    *discreteStatesNeedUpdate = *terminateSimulation = *nominalsOfContinuousStatesChanged = false;
    *valuesOfContinuousStatesChanged = *nextEventTimeDefined = false;
    *nextEventTime = 0;
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3CompletedIntegratorStep(fmi3Instance instance, fmi3Boolean noSetFMUStatePriorToCurrentPoint,
                                                   fmi3Boolean *enterEventMode, fmi3Boolean *terminateSimulation) {
    *enterEventMode = *terminateSimulation = false;
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3SetTime(fmi3Instance instance, fmi3Float64 time) {
    ((Robot *)instance)->state.time = time;
    return fmi3OK;
}

/* Continuous states are q, then qd. Their derivatives are qd, then qdd. */
FMI3_Export fmi3Status fmi3SetContinuousStates(fmi3Instance instance, const fmi3Float64 continuousStates[],
                                               size_t nContinuousStates) {
    Robot *robot = (Robot *)instance;
    if (nContinuousStates != NQ + NV) return failed(robot, "the number of states is another one");
    if (dg_doubt(continuousStates, NQ + NV) != 0) return failed(robot, "a state is infinite or NaN");
    memcpy(robot->state.q, continuousStates, sizeof robot->state.q);
    memcpy(robot->state.qd, continuousStates + NQ, sizeof robot->state.qd);
    robot->is_fresh = 0;
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3GetContinuousStates(fmi3Instance instance, fmi3Float64 continuousStates[],
                                               size_t nContinuousStates) {
    const State *s = &((Robot *)instance)->state;
    if (nContinuousStates != NQ + NV) return failed((Robot *)instance, "the number of states is another one");
    memcpy(continuousStates, s->q, sizeof s->q);
    memcpy(continuousStates + NQ, s->qd, sizeof s->qd);
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance instance, fmi3Float64 derivatives[],
                                                         size_t nContinuousStates) {
    Robot *robot = (Robot *)instance;
    if (nContinuousStates != 2 * NV) return failed(robot, "the number of states is another one");
    if (refresh(robot) != fmi3OK) return fmi3Error;
    memcpy(derivatives, robot->state.qd, sizeof robot->state.qd);
    memcpy(derivatives + NV, robot->qdd, sizeof robot->qdd);
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance instance, fmi3Float64 nominals[],
                                                         size_t nContinuousStates) {
    for (size_t k = 0; k < nContinuousStates; k++) nominals[k] = 1;
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3GetEventIndicators(fmi3Instance instance, fmi3Float64 eventIndicators[],
                                              size_t nEventIndicators) {
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance instance, size_t *nEventIndicators) {
    *nEventIndicators = 0;
    return fmi3OK;
}

FMI3_Export fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance instance, size_t *nContinuousStates) {
    *nContinuousStates = NQ + NV;
    return fmi3OK;
}

/* The steps of DT seconds in a communication step; 0 if it is no multiple of them. */
static long steps_in(double size) {
    const double steps = floor(size / DT + 0.5);
    return size > 0 && steps >= 1 && steps <= 1e9 && fabs(steps * DT - size) <= 1e-6 * DT ? (long)steps : 0;
}

FMI3_Export fmi3Status fmi3DoStep(fmi3Instance instance, fmi3Float64 currentCommunicationPoint,
                                  fmi3Float64 communicationStepSize, fmi3Boolean noSetFMUStatePriorToCurrentPoint,
                                  fmi3Boolean *eventHandlingNeeded, fmi3Boolean *terminateSimulation,
                                  fmi3Boolean *earlyReturn, fmi3Float64 *lastSuccessfulTime) {
    Robot *robot = (Robot *)instance;
    State next = robot->state;
    *eventHandlingNeeded = *terminateSimulation = *earlyReturn = false;
    *lastSuccessfulTime = next.time;
    if (next.mode != STEP) return failed(robot, "a step is possible in step mode only, after initialization");
    const long steps = steps_in(communicationStepSize);
    if (!steps) {
        char text[160];
        snprintf(text, sizeof text, "step size %.17g s; expected a positive multiple of %.17g s, and at most 1e9 of them",
                 communicationStepSize, (double)DT);
        return failed(robot, text);
    }
    for (long k = 0; k < steps; k++) {
        double q[NQ], qd[NV];
        advance(next.q, next.qd, next.tau, q, qd);
        if (dg_doubt(q, NQ) + dg_doubt(qd, NV) != 0) return failed(robot, "a state became infinite or NaN");
        memcpy(next.q, q, sizeof q);
        memcpy(next.qd, qd, sizeof qd);
    }
    next.time = *lastSuccessfulTime = currentCommunicationPoint + communicationStepSize;
    robot->state = next;
    robot->is_fresh = 0;
    return fmi3OK;
}
