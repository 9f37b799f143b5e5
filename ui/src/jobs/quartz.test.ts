import { expect, it } from "vitest";
import { inWords } from "./quartz";

it.each([
  ["0 0 6 * * ?", "Every day at 06:00"],
  ["0 30 6,18 ? * *", "Every day at 06:30 and 18:30"],
  ["20 30 8 * * ? *", "Every day at 08:30:20"],
  ["0 0 6 ? * 2-6", "Monday to Friday at 06:00"],
  ["0 0 6 ? * MON,WED,FRI", "On Monday, Wednesday and Friday at 06:00"],
  ["0 0 6 ? * 2#1", "On the first Monday of the month at 06:00"],
  ["0 0 6 ? * 6L", "On the last Friday of the month at 06:00"],
  ["0 0 0 1 * ?", "On day 1 of the month at 00:00"],
  ["0 0 0 1,15 1,7 ?", "On days 1 and 15 of the month at 00:00, in January and July"],
  ["0 0 0 L * ?", "On the last day of the month at 00:00"],
  ["0 0 0 LW JAN-MAR ?", "On the last weekday of the month at 00:00, in January to March"],
  ["0 * * * * ?", "Every minute"],
  ["0 0/15 * * * ?", "Every 15 minutes"],
  ["*/30 * * * * ?", "Every 30 seconds"],
  ["0 */10 8-17 ? * MON-FRI", "Every 10 minutes from 08:00 to 17:59, Monday to Friday"],
  ["0 0 * * * ?", "Every hour"],
  ["0 20 0/4 * * ?", "Every 4 hours, at minute 20"],
  ["0 5 9-17 ? * SAT", "Every hour from 09:05 to 17:05, on Saturday"],
])("says %s in words", (expression, words) => {
  expect(inWords(expression)).toBe(words);
});

it.each([
  "",
  "0 6 * * ?",
  "0 0 25 * * ?",
  "0 0 6 ? * 9",
  "0 0 6 15W * ?",
  "0 7/3 * * * ?",
  "0 0 6 * * ? 2030",
  "1,2 0 6 * * ?",
])("has no words for %s", (expression) => {
  expect(inWords(expression)).toBeUndefined();
});
