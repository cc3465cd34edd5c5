/* One sample again and again, from C: what a call costs without Python around it. */
void repeat(int (*one)(const void *const *, void *const *), const void *const *inputs, void *const *outputs, long count) {
    for (long k = 0; k < count; k++) one(inputs, outputs);
}
