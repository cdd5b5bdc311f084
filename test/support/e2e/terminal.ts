// Runs a program in a terminal of its own, which Node can't make, but Python can. It shows what is typed, unless the program prevents it.

import { type Outcome, runProcess } from "./petstore.ts";

const PYTHON = `
import os, pty, sys
question, typed, *command = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0: os.execvp(command[0], command)
shown = b""
while True:
    try: chunk = os.read(terminal, 1024)
    except OSError: break
    if not chunk: break
    isAsked = question.encode() in shown
    shown += chunk
    if not isAsked and question.encode() in shown: os.write(terminal, typed.encode() + b"\\r")
sys.stdout.write(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;

/** False on a machine without python3, or without terminals. */
export const hasTerminals = (await runProcess("python3", ["-c", "import pty"])).exitCode === 0;

/** Types a line as soon as the question is shown. `stdout` is all that the terminal shows. */
export function runInTerminal(
  command: string[],
  question: string,
  typed: string,
  environment: NodeJS.ProcessEnv,
): Promise<Outcome> {
  return runProcess("python3", ["-c", PYTHON, question, typed, ...command], environment);
}
