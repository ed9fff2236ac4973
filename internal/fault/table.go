package fault

import "slices"

// The codes, by the part of the product that speaks them.
const (
	// Files.
	FileNotFound             Code = "FILE_NOT_FOUND"
	FileExists               Code = "FILE_EXISTS"
	AccessDenied             Code = "ACCESS_DENIED"
	PathOutsideBase          Code = "PATH_OUTSIDE_BASE"
	LockTimeout              Code = "LOCK_TIMEOUT"
	EncodingError            Code = "ENCODING_ERROR"
	InvalidPatch             Code = "INVALID_PATCH"
	ContentOrPatchesRequired Code = "CONTENT_OR_PATCHES_REQUIRED"
	FileTooLarge             Code = "FILE_TOO_LARGE"
	WriteError               Code = "WRITE_ERROR"
	DeleteError              Code = "DELETE_ERROR"
	RenameError              Code = "RENAME_ERROR"
	DirNotFound              Code = "DIR_NOT_FOUND"
	IsADirectory             Code = "IS_A_DIRECTORY"
	NotARegularFile          Code = "NOT_A_REGULAR_FILE"
	ContentBlocked           Code = "CONTENT_BLOCKED"
	RedactionMarkersPresent  Code = "REDACTION_MARKERS_PRESENT"

	// Shell and search.
	CommandDenied           Code = "COMMAND_DENIED"
	CommandTimeout          Code = "COMMAND_TIMEOUT"
	ShellDisabled           Code = "SHELL_DISABLED"
	SearchDisabled          Code = "SEARCH_DISABLED"
	TaskNotFound            Code = "TASK_NOT_FOUND"
	InvalidPattern          Code = "INVALID_PATTERN"
	ShellNotInstalled       Code = "SHELL_NOT_INSTALLED"
	BlockedCommand          Code = "BLOCKED_COMMAND"
	WorkingDirEscape        Code = "WORKING_DIR_ESCAPE"
	WorkingDirNotFound      Code = "WORKING_DIR_NOT_FOUND"
	JobNotFound             Code = "JOB_NOT_FOUND"
	JobNotRunning           Code = "JOB_NOT_RUNNING"
	BackgroundNotConfigured Code = "BACKGROUND_NOT_CONFIGURED"
	TooManyJobs             Code = "TOO_MANY_JOBS"
	RateLimited             Code = "RATE_LIMITED"

	// Aliases.
	AliasNotFound        Code = "ALIAS_NOT_FOUND"
	AliasUnsafe          Code = "ALIAS_UNSAFE"
	ConfirmationRequired Code = "CONFIRMATION_REQUIRED"

	// Every tool.
	ValidationError    Code = "VALIDATION_ERROR"
	NoProjectActivated Code = "NO_PROJECT_ACTIVATED"
	NotTrusted         Code = "NOT_TRUSTED"
	ServerError        Code = "SERVER_ERROR"
)

// Info explains a code: what it means, what to do next, whether the same call
// may succeed later unchanged, and the nearest HTTP status.
type Info struct {
	Code    Code
	Meaning string
	Next    string
	Retry   bool
	HTTP    int
}

var table = []Info{
	{FileNotFound, "The file does not exist.", "Check the path with async_list, or create the file with async_write.", false, 404},
	{FileExists, "The file exists already.", "Change an existing file with async_update, or choose another path.", false, 409},
	{AccessDenied, "An access rule or the operating system refuses this operation here.", "Use a path the rules allow; crud_get_config shows the rules in force.", false, 403},
	{PathOutsideBase, "The path is not inside a base directory of this session.", "Use a path inside the project, or activate the project that holds it with crud_activate_project.", false, 403},
	{LockTimeout, "The file's lock was not free within the timeout.", "Try again, or with a longer timeout; async_status shows who holds the lock.", true, 408},
	{EncodingError, "The bytes cannot be read or written in this encoding.", "Name the file's real encoding in the encoding parameter.", false, 400},
	{InvalidPatch, "A patch does not fit the file it was made for.", "Read the file again and make old_string occur exactly once, or set replace_all.", false, 400},
	{ContentOrPatchesRequired, "An update needs either content or patches, and not both.", "Give exactly one of content and patches.", false, 400},
	{FileTooLarge, "The file is larger than crud.max_file_size_bytes.", "Split the work, or have a person raise the limit.", false, 413},
	{WriteError, "The operating system refused the write; the old file is intact.", "Check free space and permissions, then try again.", true, 500},
	{DeleteError, "The operating system refused to delete; the file is intact.", "Check permissions, then try again.", true, 500},
	{RenameError, "The operating system refused to rename; both files are as they were.", "Check permissions and free space, then try again.", true, 500},
	{DirNotFound, "The directory does not exist.", "List a directory that exists, or create it with async_mkdir.", false, 404},
	{IsADirectory, "The path names a directory where a file is needed.", "Name a file, or set recursive where the tool has it.", false, 400},
	{NotARegularFile, "The path names a device, pipe, socket or other special file.", "Name a regular file.", false, 400},
	{ContentBlocked, "A content rule forbids handing out or writing this content.", "Leave this content alone; a person can change crud.content_rules.", false, 403},
	{RedactionMarkersPresent, "The text holds redaction markers that stand for hidden content.", "Edit only the lines around the markers, with patches that leave them out.", false, 409},
	{CommandDenied, "The command policy refuses this command.", "Use the tool the reason names.", false, 403},
	{CommandTimeout, "The command was ended at its timeout; details hold its output so far.", "Raise timeout, or run it with background: true and wait with async_wait.", true, 408},
	{ShellDisabled, "Running commands is switched off.", "A person can set shell.enabled; until then use the file and search tools.", false, 403},
	{SearchDisabled, "Searching is switched off.", "A person can set search.enabled; until then use async_list and async_read.", false, 403},
	{TaskNotFound, "No background task has this id in this project.", "Use the task_id that async_exec returned; finished tasks are kept for a limited time.", false, 404},
	{InvalidPattern, "The pattern is not a valid regular expression.", "Correct it at the position given, or escape literal characters.", false, 400},
	{ShellNotInstalled, "The shell that was asked for is not installed.", "Leave shell out, or have a person install it.", false, 501},
	{BlockedCommand, "The command contains a blocked string.", "Rephrase the command without it.", false, 403},
	{WorkingDirEscape, "The working directory is outside the project.", "Name a directory inside the project.", false, 403},
	{WorkingDirNotFound, "The working directory does not exist.", "Name a directory that exists.", false, 404},
	{JobNotFound, "No job has this id in this project.", "shell_jobs lists the jobs; finished ones are kept for a limited time.", false, 404},
	{JobNotRunning, "The job has ended already.", "shell_job_status shows how it ended.", false, 409},
	{BackgroundNotConfigured, "Background execution is not available here.", "Run the command in the foreground.", false, 501},
	{TooManyJobs, "The limit of concurrent commands is reached.", "Wait for a job with async_wait, or cancel one.", true, 429},
	{RateLimited, "Too many commands in a short time.", "Wait a moment and try again.", true, 429},
	{AliasNotFound, "No alias has this name.", "alias_catalog lists the aliases.", false, 404},
	{AliasUnsafe, "The composed command is not allowed by the alias rules.", "Run it as a dry run, or have a person add the rule the message names.", false, 403},
	{ConfirmationRequired, "This needs an explicit confirmation.", "Show the person what will happen, then call again with confirm: true.", false, 428},
	{ValidationError, "An argument is missing, unknown, of the wrong type or out of range.", "Correct the argument the message names.", false, 400},
	{NoProjectActivated, "This session has no project, so no path means anything yet.", `Call crud_activate_project {"path": "/absolute/path/of/the/project"} first.`, false, 409},
	{NotTrusted, "This would loosen the policy, and the project is not trusted.", "A person can run async-crud-mcp trust in the project, or start the server with --trust-project.", false, 403},
	{ServerError, "Something unexpected went wrong inside the server.", "Try again once; then report it with the server log.", true, 500},
}

// Table returns every code with its explanation, in documentation order.
func Table() []Info { return slices.Clone(table) }

// Describe returns the explanation of code. An unknown code is described as
// SERVER_ERROR is, under its own name.
func Describe(code Code) Info {
	for _, i := range table {
		if i.Code == code {
			return i
		}
	}
	i := table[len(table)-1]
	i.Code = code
	return i
}
