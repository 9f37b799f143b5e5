import { useLevel } from "../access/rights";

export const LEVELS = ["CAN_ATTACH_TO", "CAN_RESTART", "CAN_MANAGE"] as const;
export type Level = (typeof LEVELS)[number];
export type May = (level: Level) => boolean;

export const useRights = (id: string): May => useLevel({ of: "clusters", id }, LEVELS);
