package config

// Config is every setting with its value in force. Durations are in the unit the
// description names; an empty list or null means what the description says.
//
// Tags: json, jsonschema, default, enum, minimum, maximum as package schema
// reads them, and
//
//	project:"free"             any project file may set it
//	project:"tighten:lower"    an untrusted project file may only make it stricter, here:
//	                           lower; limit (lower, 0 is no limit); true; false; append
//	                           (add items); subset (leave items out); order:A,B,C (move
//	                           right); patterns (shell.deny_patterns and its mode)
//	project:"process"          no project file may set it, trusted or not
//	(none)                     a trusted project file may set it
//	path:"absolute"            a path, absolute after ~ is expanded
//	path:"any"                 a path; ~ is expanded
//	secret:"url"               hide user and password in URLs when shown
type Config struct {
	Daemon      Daemon      `json:"daemon" jsonschema:"the server process: where it listens, what it offers, how it watches itself" default:"{}"`
	Crud        Crud        `json:"crud" jsonschema:"the file tools: where they may work, limits, rules" default:"{}"`
	Persistence Persistence `json:"persistence" jsonschema:"what is remembered: past contents and state across restarts" default:"{}"`
	Watcher     Watcher     `json:"watcher" jsonschema:"noticing changes that others make to files" default:"{}"`
	Shell       Shell       `json:"shell" jsonschema:"running commands: policy, limits, environment" default:"{}"`
	Search      Search      `json:"search" jsonschema:"searching file contents" default:"{}"`
	Aliases     Aliases     `json:"aliases" jsonschema:"shell aliases offered as tools" default:"{}"`
	Sandbox     Sandbox     `json:"sandbox" jsonschema:"what a command may touch, enforced by the operating system" default:"{}"`
	Audit       Audit       `json:"audit" jsonschema:"the record of every call" default:"{}"`
	Cluster     Cluster     `json:"cluster" jsonschema:"coordination with servers on other machines" default:"{}"`
}

// Daemon is the server process itself.
type Daemon struct {
	Enabled               bool     `json:"enabled" jsonschema:"whether bootstrap starts the server" default:"true" project:"process"`
	Host                  string   `json:"host" jsonschema:"address to listen on; anything but loopback needs a token" default:"127.0.0.1" minLength:"1" project:"process"`
	Port                  *int     `json:"port" jsonschema:"HTTP port; null: 8720 to 8819 by a hash of the user name; 0: any free port" default:"8720" minimum:"0" maximum:"65535" project:"process"`
	Transport             string   `json:"transport" jsonschema:"MCP transport that setup writes into host configurations; the server itself speaks all" default:"sse" enum:"sse,stdio,http" project:"process"`
	Token                 *string  `json:"token" jsonschema:"path of a file with mode 0600 that holds the bearer token; null: none" default:"null" path:"absolute" project:"process"`
	Toolsets              []string `json:"toolsets,omitempty" jsonschema:"toolsets to offer; all for every one; null: the default set" project:"process"`
	ExcludeTools          []string `json:"exclude_tools" jsonschema:"tools not to offer, by name" default:"[]" project:"process"`
	ReadOnly              bool     `json:"read_only" jsonschema:"offer only tools that change nothing" default:"false" project:"process"`
	SessionTimeoutSeconds float64  `json:"session_timeout_seconds" jsonschema:"an HTTP session without requests ends after this many seconds" default:"1800" minimum:"1" project:"process"`
	LogLevel              string   `json:"log_level" jsonschema:"least level that is logged" default:"INFO" enum:"DEBUG,INFO,WARN,WARNING,ERROR" project:"process"`
	LogFile               *string  `json:"log_file" jsonschema:"log file, rotated at 10 MB and kept for 7 days; null: server.log in the log directory" default:"null" path:"absolute" project:"process"`
	ConfigPollSeconds     float64  `json:"config_poll_seconds" jsonschema:"how often configuration files are looked at when the system gives no notice of changes; read at start" default:"3" minimum:"0.1" maximum:"3600" project:"process"`
	ConfigDebounceSeconds float64  `json:"config_debounce_seconds" jsonschema:"how long a configuration file must be at rest before it is read; read at start" default:"1" minimum:"0.01" maximum:"60" project:"process"`
	SessionPollSeconds    float64  `json:"session_poll_seconds" jsonschema:"how often bootstrap looks whether the user is logged in" default:"3" minimum:"0.1" maximum:"3600" project:"process"`
	WaitForSession        bool     `json:"wait_for_session" jsonschema:"start the server only when the user is logged in" default:"true" project:"process"`
	HealthCheckInterval   float64  `json:"health_check_interval" jsonschema:"seconds between health checks of the server by bootstrap" default:"30" minimum:"1" maximum:"3600" project:"process"`
}

// Crud is about the file tools.
type Crud struct {
	BaseDirectories  []string      `json:"base_directories" jsonschema:"absolute directories that may be worked in, besides the project; empty: only activated projects" default:"[]" path:"absolute" project:"process"`
	DefaultTimeout   float64       `json:"default_timeout" jsonschema:"seconds a change waits for its lock when the call gives no timeout" default:"30" minimum:"0" project:"tighten:lower"`
	MaxTimeout       float64       `json:"max_timeout" jsonschema:"longest lock timeout a call may ask for, in seconds" default:"300" minimum:"0" project:"tighten:lower"`
	DefaultEncoding  string        `json:"default_encoding" jsonschema:"encoding of files when the call names none" default:"utf-8" minLength:"1" project:"free"`
	DiffContextLines int           `json:"diff_context_lines" jsonschema:"lines of context around each change in a diff" default:"3" minimum:"0" maximum:"100" project:"free"`
	MaxFileSizeBytes int64         `json:"max_file_size_bytes" jsonschema:"largest file that is read or written" default:"10485760" minimum:"1" project:"tighten:lower"`
	MaxResultBytes   int64         `json:"max_result_bytes" jsonschema:"largest result of a read; 0: no limit" default:"0" minimum:"0" project:"tighten:limit"`
	MaxListEntries   int           `json:"max_list_entries" jsonschema:"most entries of one listing; the rest is counted" default:"20000" minimum:"1" project:"tighten:lower"`
	OnContention     string        `json:"on_contention" jsonschema:"what an update does when the file changed meanwhile and the call does not say" default:"fail" enum:"fail,merge" project:"free"`
	Durability       string        `json:"durability" jsonschema:"full: a change survives a power cut; rename: it survives a crash of the server" default:"full" enum:"full,rename" project:"tighten:order:rename,full"`
	AccessRules      []AccessRule  `json:"access_rules" jsonschema:"which paths allow which operations (read, write, update, append, delete, rename, copy, mkdir, list, status, search); a project file may add rules that deny, and others when trusted" default:"[]" project:"tighten:append"`
	ContentRules     []ContentRule `json:"content_rules" jsonschema:"content that is refused or redacted; rules of a project file are added, unless they would decide before one that denies" default:"[]" project:"tighten:append"`
	ProtectedPaths   []string      `json:"protected_paths" jsonschema:"globs, relative to the project, that no tool may touch" default:"[\".async-crud-mcp/**\",\".git/hooks/**\",\".git/config\",\"**/.git/hooks/**\",\"**/.git/config\"]" project:"tighten:append"`
	SecretFiles      []string      `json:"secret_files" jsonschema:"globs of files whose content is never kept in history; without a slash they match the name anywhere" default:"[\".env*\",\"*.pem\",\"*.key\",\"*.p12\",\"*.pfx\",\"id_rsa*\",\"id_ecdsa*\",\"id_ed25519*\",\".netrc\"]" project:"tighten:append"`
}

// AccessRule allows or denies operations below a path.
type AccessRule struct {
	Path       string   `json:"path" jsonschema:"glob, relative to the project" minLength:"1"`
	Operations []string `json:"operations" jsonschema:"operations it is about, of read, write, update, append, delete, rename, copy, mkdir, list, status and search; empty: all" default:"[]"`
	Action     string   `json:"action" jsonschema:"what happens" enum:"allow,deny"`
	Priority   int      `json:"priority" jsonschema:"the rule with the highest priority that fits decides" default:"0"`
}

// ContentRule refuses or redacts content.
type ContentRule struct {
	Name     string `json:"name" jsonschema:"name shown when it fits" default:""`
	Pattern  string `json:"pattern" jsonschema:"regular expression" minLength:"1"`
	Action   string `json:"action" jsonschema:"what happens" enum:"deny,redact"`
	Priority int    `json:"priority" jsonschema:"the rule with the highest priority that fits decides" default:"0"`
}

// Persistence is about what outlives a request and a restart.
type Persistence struct {
	Enabled              bool    `json:"enabled" jsonschema:"keep history and state across restarts" default:"false" project:"process"`
	StateFile            *string `json:"state_file" jsonschema:"database file; null: in the data directory" default:"null" path:"absolute" project:"process"`
	WriteDebounceSeconds float64 `json:"write_debounce_seconds" jsonschema:"how late state may be written" default:"1" minimum:"0" maximum:"60" project:"process"`
	TTLMultiplier        float64 `json:"ttl_multiplier" jsonschema:"a persisted entry lives for the request's timeout times this" default:"2" minimum:"1" project:"process"`
	HistoryMemoryMB      int     `json:"history_memory_mb" jsonschema:"past contents kept in memory, in MiB" default:"32" minimum:"0" project:"process"`
	HistoryDiskMB        int     `json:"history_disk_mb" jsonschema:"past contents kept on disk when enabled, in MiB" default:"512" minimum:"0" project:"process"`
	HistoryDays          int     `json:"history_days" jsonschema:"days past contents are kept on disk" default:"30" minimum:"1" project:"process"`
}

// Watcher is about changes made by others.
type Watcher struct {
	Enabled    bool `json:"enabled" jsonschema:"notice changes through the operating system" default:"true"`
	DebounceMS int  `json:"debounce_ms" jsonschema:"milliseconds a file must be at rest before its change counts" default:"100" minimum:"0" maximum:"60000"`
}

// Shell is about running commands.
type Shell struct {
	Enabled                bool          `json:"enabled" jsonschema:"let agents run commands" default:"false" project:"tighten:false"`
	DenyPatterns           []DenyPattern `json:"deny_patterns" jsonschema:"commands to refuse, beside the built-in set; patterns of a project file are added to these" default:"[]" project:"tighten:patterns"`
	DenyPatternsMode       string        `json:"deny_patterns_mode" jsonschema:"extend: built-in set and deny_patterns; replace: deny_patterns alone; disable: nothing is refused. In a project file it acts on what is in force below" default:"extend" enum:"extend,replace,disable" project:"tighten:patterns"`
	MaxCommandLength       int           `json:"max_command_length" jsonschema:"longest command in characters" default:"10000" minimum:"1" project:"tighten:lower"`
	TimeoutDefault         float64       `json:"timeout_default" jsonschema:"seconds a command of async_exec may take when the call gives no timeout" default:"120" minimum:"0.1" project:"tighten:lower"`
	TimeoutMax             float64       `json:"timeout_max" jsonschema:"longest timeout a call may ask for, in seconds" default:"600" minimum:"0.1" project:"tighten:lower"`
	ForegroundLimit        float64       `json:"foreground_limit" jsonschema:"seconds after which async_exec hands a running command back as a background job; 0: never" default:"0" minimum:"0" project:"free"`
	EnvInherit             bool          `json:"env_inherit" jsonschema:"give commands the environment of the client" default:"true" project:"tighten:false"`
	EnvStrip               []string      `json:"env_strip" jsonschema:"globs of environment variables that commands never get" default:"[\"CLAUDECODE\",\"CLAUDE_CODE_*\",\"*_TOKEN\",\"*_TOKEN_*\",\"*SECRET*\",\"*PASSWORD*\",\"*PASSWD*\",\"*_KEY\",\"*_KEY_ID\",\"*API_KEY*\",\"*CREDENTIAL*\",\"DATABASE_URL\",\"*_DSN\"]" project:"tighten:append"`
	CwdOverride            *string       `json:"cwd_override" jsonschema:"working directory when the call names none; null: the project" default:"null" path:"any"`
	MaxCommandsPerMinute   int           `json:"max_commands_per_minute" jsonschema:"commands a session may start in a minute; 0: no limit" default:"600" minimum:"0" project:"tighten:limit"`
	DefaultTimeoutSecs     float64       `json:"default_timeout_secs" jsonschema:"seconds a command of the shell tool may take when the call gives no timeout" default:"30" minimum:"0.1" project:"tighten:lower"`
	RestrictToProject      bool          `json:"restrict_to_project" jsonschema:"keep the working directory of the shell tool inside the project" default:"true" project:"tighten:true"`
	Shell                  string        `json:"shell" jsonschema:"shell of the shell tool; sh when it is not installed" default:"nu" minLength:"1"`
	ShellPath              *string       `json:"shell_path" jsonschema:"path of that shell; null: looked up" default:"null" path:"absolute"`
	MaxCompletedJobs       int           `json:"max_completed_jobs" jsonschema:"finished jobs kept" default:"100" minimum:"0" project:"tighten:lower"`
	CompletedJobTTLSecs    float64       `json:"completed_job_ttl_secs" jsonschema:"seconds a finished job is kept" default:"300" minimum:"0" project:"tighten:lower"`
	MaxConcurrentProcesses int           `json:"max_concurrent_processes" jsonschema:"commands that may run at once" default:"10" minimum:"1" project:"tighten:lower"`
}

// DenyPattern refuses commands.
type DenyPattern struct {
	Name     string   `json:"name" jsonschema:"name shown when it fits; empty: the pattern" default:""`
	Pattern  string   `json:"pattern" jsonschema:"regular expression" minLength:"1"`
	Reason   string   `json:"reason" jsonschema:"what the agent is told" default:""`
	Use      string   `json:"use" jsonschema:"tool to use instead" default:""`
	Scope    string   `json:"scope" jsonschema:"command: each simple command, normalised; raw: the text as typed" default:"command" enum:"command,raw"`
	Match    []string `json:"match" jsonschema:"commands it must fit, checked when it is loaded" default:"[]"`
	NotMatch []string `json:"not_match" jsonschema:"commands it must not fit, checked when it is loaded" default:"[]"`
}

// Search is about searching file contents.
type Search struct {
	Enabled          bool    `json:"enabled" jsonschema:"let agents search" default:"true" project:"tighten:false"`
	MaxResults       int     `json:"max_results" jsonschema:"most results of one search" default:"1000" minimum:"1" project:"tighten:lower"`
	MaxResultBytes   int     `json:"max_result_bytes" jsonschema:"largest result of one search, about; what is more is cut, and the result says so; 0: no limit" default:"262144" minimum:"0" project:"tighten:limit"`
	MaxFileSizeBytes int64   `json:"max_file_size_bytes" jsonschema:"larger files are skipped and counted" default:"10485760" minimum:"1" project:"tighten:lower"`
	TimeoutDefault   float64 `json:"timeout_default" jsonschema:"seconds after which a search returns what it has" default:"30" minimum:"0.1" project:"tighten:lower"`
	RespectGitignore bool    `json:"respect_gitignore" jsonschema:"skip what .gitignore names" default:"true" project:"free"`
	Verify           string  `json:"verify" jsonschema:"how the index is kept true: watch: by notices of the system; stat: also by looking at every file" default:"watch" enum:"watch,stat" project:"tighten:order:watch,stat"`
}

// Aliases is about shell aliases as tools.
type Aliases struct {
	AliasFiles            []string `json:"alias_files" jsonschema:"files to take aliases from; empty: the toolset is off" default:"[]" path:"absolute"`
	AllowPatterns         []string `json:"allow_patterns" jsonschema:"regular expressions; every simple command of an alias must fit one to be run; empty: none is" default:"[]" project:"tighten:subset"`
	DenyPatterns          []string `json:"deny_patterns" jsonschema:"regular expressions; a command that fits one is never run" default:"[\"^rm\\\\b\",\"^mv\\\\b.*\\\\s/\",\"^dd\\\\b\",\"^mkfs\",\"^sudo\\\\b\",\"^(apt|apt-get|dnf|yum|pacman|zypper|apk|snap|brew)\\\\b\",\"^(reboot|shutdown|halt|poweroff)\\\\b\"]" project:"tighten:append"`
	DefaultCwd            string   `json:"default_cwd" jsonschema:"working directory when the call names none" default:"~" path:"any"`
	CwdRoots              []string `json:"cwd_roots" jsonschema:"directories a working directory must lie in; empty: none is allowed" default:"[\"~\"]" path:"any" project:"tighten:subset"`
	DefaultTimeoutSeconds float64  `json:"default_timeout_seconds" jsonschema:"seconds an alias may take when the call gives no timeout" default:"20" minimum:"0.1" project:"tighten:lower"`
	MaxStdoutBytes        int      `json:"max_stdout_bytes" jsonschema:"bytes of standard output kept" default:"10000" minimum:"0" project:"tighten:lower"`
	MaxStderrBytes        int      `json:"max_stderr_bytes" jsonschema:"bytes of standard error kept" default:"10000" minimum:"0" project:"tighten:lower"`
	AuditLogPath          *string  `json:"audit_log_path" jsonschema:"log of alias calls; null: aliases-audit.log in the log directory" default:"null" path:"absolute" project:"process"`
	EnableHotReload       bool     `json:"enable_hot_reload" jsonschema:"read alias files again when they change" default:"true"`
	Functions             bool     `json:"functions" jsonschema:"offer shell functions too" default:"false" project:"tighten:false"`
	ToolPerAlias          bool     `json:"tool_per_alias" jsonschema:"one tool per safe alias, beside alias_exec" default:"false" project:"tighten:false"`
}

// Sandbox is about what commands may touch.
type Sandbox struct {
	Mode      string   `json:"mode" jsonschema:"off; workspace-write: project, temporary and cache directories; strict: the project only in build_dirs; read-only: nothing" default:"workspace-write" enum:"off,workspace-write,strict,read-only" project:"tighten:order:off,workspace-write,strict,read-only"`
	Network   string   `json:"network" jsonschema:"whether commands may use the network" default:"on" enum:"on,off" project:"tighten:order:on,off"`
	Backend   string   `json:"backend" jsonschema:"means of enforcement" default:"auto" enum:"auto,bwrap,landlock,seatbelt,none"`
	Require   bool     `json:"require" jsonschema:"refuse commands where the mode cannot be enforced" default:"false" project:"tighten:true"`
	Writable  []string `json:"writable" jsonschema:"further directories that commands may write" default:"[]" path:"any" project:"tighten:subset"`
	BuildDirs []string `json:"build_dirs" jsonschema:"directories of the project that commands may write in strict mode" default:"[\"build\",\"dist\",\"out\",\"target\"]" project:"tighten:subset"`
}

// Audit is about the record of calls.
type Audit struct {
	Enabled   bool    `json:"enabled" jsonschema:"record every call" default:"true" project:"tighten:true"`
	File      *string `json:"file" jsonschema:"file of the record; null: audit.jsonl in the log directory" default:"null" path:"absolute" project:"process"`
	MaxSizeMB int     `json:"max_size_mb" jsonschema:"size at which a new file is begun, in MiB" default:"10" minimum:"1" project:"process"`
	MaxFiles  int     `json:"max_files" jsonschema:"old files kept" default:"10" minimum:"0" project:"process"`
}

// Cluster is about servers on other machines.
type Cluster struct {
	Backend   string   `json:"backend" jsonschema:"local: this machine alone; etcd: servers that share a file system" default:"local" enum:"local,etcd" project:"process"`
	Endpoints []string `json:"endpoints" jsonschema:"addresses of etcd" default:"[]" secret:"url" project:"process"`
}
