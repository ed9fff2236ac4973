<#
.SYNOPSIS
Installs async-crud-mcp for the person who runs this: one file, no administrator.

.PARAMETER Version
Install this version (default: the latest).

.PARAMETER Dir
Where the program goes (default: %LOCALAPPDATA%\Programs\async-crud-mcp).

.PARAMETER From
A release folder, or the https address of one, to take it from. The archive must
match checksums.txt of the same place.
#>
[CmdletBinding()]
param(
    [string]$Version = '',
    [string]$Dir = '',
    [string]$From = ''
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$program = 'async-crud-mcp'
$releases = 'https://github.com/async-crud-mcp/async-crud-mcp/releases'

if ($From -and $Version) {
    throw '-From names one release; leave -Version out'
}
if (-not $Dir) {
    $Dir = Join-Path $env:LOCALAPPDATA "Programs\$program"
}
if (-not $From) {
    $From = "$releases/latest/download"
    if ($Version) {
        $From = "$releases/download/v" + $Version.TrimStart('v')
    }
}

# A 32-bit shell on a 64-bit system names its own processor in the first.
$machine = $env:PROCESSOR_ARCHITECTURE
if ($env:PROCESSOR_ARCHITEW6432) {
    $machine = $env:PROCESSOR_ARCHITEW6432
}
switch ($machine) {
    'AMD64' { $arch = 'amd64' }
    'ARM64' { $arch = 'arm64' }
    default { throw "there is no release for Windows on $machine, only for amd64 and arm64" }
}
$archive = "${program}_windows_$arch.zip"

function Get-ReleaseFile([string]$Name, [string]$Target) {
    if ($From -match '^(https://|http://(127\.0\.0\.1|localhost):)') {
        [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
        Invoke-WebRequest -UseBasicParsing -Uri "$From/$Name" -OutFile $Target
    }
    elseif ($From -match '^http://') {
        throw "$From is not safe; use https"
    }
    else {
        Copy-Item -LiteralPath (Join-Path $From $Name) -Destination $Target
    }
}

New-Item -ItemType Directory -Force -Path $Dir | Out-Null
$Dir = (Resolve-Path -LiteralPath $Dir).Path
# Beside its place, so that the last step is a rename and never half a file.
$work = Join-Path $Dir ('.' + $program + '.' + [IO.Path]::GetRandomFileName())
New-Item -ItemType Directory -Path $work | Out-Null
try {
    $checksums = Join-Path $work 'checksums.txt'
    $packed = Join-Path $work $archive
    Get-ReleaseFile 'checksums.txt' $checksums
    Get-ReleaseFile $archive $packed

    $want = ''
    foreach ($line in Get-Content -LiteralPath $checksums) {
        $fields = @($line -split '\s+')
        if ($fields.Count -ge 2 -and $fields[1].TrimStart('*') -eq $archive) {
            $want = $fields[0]
        }
    }
    if (-not $want) {
        throw "checksums.txt does not name $archive; nothing was installed"
    }
    $got = (Get-FileHash -LiteralPath $packed -Algorithm SHA256).Hash
    if ($got -ne $want) {
        throw "$archive has the checksum $got, not $want; nothing was installed"
    }

    Expand-Archive -LiteralPath $packed -DestinationPath (Join-Path $work 'unpacked')
    $fresh = Join-Path $work "unpacked\$program.exe"
    $says = & $fresh version
    if ($LASTEXITCODE -ne 0) {
        throw 'the program does not run on this system; nothing was installed'
    }
    # A running program cannot be replaced, but it can be renamed.
    $exe = Join-Path $Dir "$program.exe"
    $old = "$exe.old"
    Remove-Item -LiteralPath $old -Force -ErrorAction SilentlyContinue
    if (Test-Path -LiteralPath $exe) {
        Move-Item -LiteralPath $exe -Destination $old -Force
    }
    Move-Item -LiteralPath $fresh -Destination $exe
    Remove-Item -LiteralPath $old -Force -ErrorAction SilentlyContinue
}
finally {
    Remove-Item -LiteralPath $work -Recurse -Force -ErrorAction SilentlyContinue
}

Write-Output "installed $says in $Dir"
$at = $program
if (($env:PATH -split ';') -notcontains $Dir) {
    $at = $exe
    Write-Output ''
    Write-Output "$Dir is not in PATH; this adds it for new terminals:"
    Write-Output "  [Environment]::SetEnvironmentVariable('PATH', [Environment]::GetEnvironmentVariable('PATH', 'User') + ';$Dir', 'User')"
}
Write-Output ''
Write-Output 'next:'
Write-Output "  $at setup     settings and hosts, after a few questions"
Write-Output "  $at doctor    looks at everything, and says what to do"
Write-Output "  $at --help    all commands"
Write-Output ''
Write-Output 'to remove it:'
Write-Output "  $at uninstall"
Write-Output "  Remove-Item '$exe'"
