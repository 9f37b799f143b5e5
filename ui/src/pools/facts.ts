import type { Pool, PoolDetails } from "../api/offers";
import { tagsOf } from "../clusters/facts";

export const usedOf = (pool: Pool) => pool.stats.used_count ?? 0;
export const idleOf = (pool: Pool) => pool.stats.idle_count ?? 0;
export const pendingOf = (pool: Pool) => (pool.stats.pending_idle_count ?? 0) + (pool.stats.pending_used_count ?? 0);
export const runtimeOf = (pool: Pool) => pool.preloaded_spark_versions?.[0] ?? "";
export const poolTags = (pool: Pool) => tagsOf({ custom_tags: pool.custom_tags });
export const sizeOf = (pool: Pool) => usedOf(pool) + idleOf(pool) + pendingOf(pool);

/** Idle instances of which some are warm: "2 warm", "3, 2 warm". */
export function idleText(pool: Pool, details: PoolDetails | undefined): string {
  const warm = details?.warm_count ?? 0;
  return warm > 0 ? `${idleOf(pool)} (${warm} warm)` : String(idleOf(pool));
}

/** What keeps the pool from having what it should. */
export const troubleOf = (pool: Pool) => pool.status.pending_instance_errors ?? [];

export const minutes = (count: number | null | undefined) =>
  count === 0 ? "at once" : count == null ? "" : `${count} min`;
