"""What each process sends and receives in an all-reduce, as the lectures compute it; the size divides by the processes."""


def sent_by(how, rank, m, n):
    """Messages sent, elements sent and elements received by a process, of m, for n elements."""
    if m == 1:
        return 0, 0, 0
    share = 2 * n * (m - 1) // m
    if how in ("ring", "round_robin"):
        return 2 * (m - 1), share, share
    if how == "all_to_all":
        return m - 1, n * (m - 1), n * (m - 1)
    if how == "master_worker":
        return (1, n, n) if rank else (m - 1, n * (m - 1), n * (m - 1))
    if how == "tree":
        ends = sum(k < m for k in (2 * rank + 1, 2 * rank + 2)) + (rank > 0)
        return ends, n * ends, n * ends
    power = 1 << (m.bit_length() - 1)
    extra, depth = m - power, power.bit_length() - 1
    if rank < 2 * extra and rank % 2:
        return 1, n, n
    helps = rank < 2 * extra
    halves = 2 * n * (power - 1) // power
    return 2 * depth + helps, halves + n * helps, halves + n * helps
