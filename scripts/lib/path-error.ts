// What is wrong with a path that somebody has typed, in words.

import { UsageError } from "./io.ts";

const PROBLEMS: Record<string, (path: string) => string> = {
  ENOENT: (path) => `there is no ${path}`,
  EISDIR: (path) => `${path} is a folder`,
  ENOTDIR: (path) => `a part of the path ${path} is a file, not a folder`,
  EACCES: (path) => `no permission for ${path}`,
  EPERM: (path) => `no permission for ${path}`,
  ENAMETOOLONG: (path) => `a name in the path ${path} is too long`,
  EROFS: (path) => `${path} is on a file system that can only be read`,
};

/** The error of a system call on a path. Where another path would help, that is wrong usage; anything else stays as it is. */
export function pathError(path: string, error: unknown): unknown {
  const problem = PROBLEMS[`${(error as NodeJS.ErrnoException).code}`];
  return problem ? new UsageError(problem(path), { cause: error }) : error;
}
